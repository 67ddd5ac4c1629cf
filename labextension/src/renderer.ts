/** The renderer of `application/vnd.cumulus.agent+json`: one instance a block, updated in place. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { PanelLayout, Widget } from '@lumino/widgets';
import { AgentView } from './agents';
import { QuestionView } from './blocks/question';
import { StatusView, type Stop } from './blocks/status';
import { TextView } from './blocks/text';
import { TodosView } from './blocks/todos';
import { ToolView } from './blocks/tool';
import type { View } from './blocks/view';
import { tickAlong } from './clock';
import { el } from './dom';
import { foldSteps, mark } from './fold';
import { LiveWidget, widgetId } from './live';
import { PanelView } from './panel';
import { asBlock, MIME, type Block } from './protocol';

export function rendererFactory(rendermime: IRenderMimeRegistry, stop: Stop): IRenderMime.IRendererFactory {
  const views: Record<Block['kind'], (options: IRenderMime.IRendererOptions) => View> = {
    text: options => new TextView(rendermime, options),
    tool: () => new ToolView(),
    todos: () => new TodosView(),
    question: () => new QuestionView(),
    panel: () => new PanelView(),
    agent: () => new AgentView(),
    status: () => new StatusView(stop)
  };
  return {
    safe: true,
    mimeTypes: [MIME],
    createRenderer: options =>
      new AgentRenderer(kind => (Object.hasOwn(views, kind) ? views[kind](options) : undefined))
  };
}

/** Draws one block. Updates that arrive while markdown renders are merged: only the newest is drawn. */
export class AgentRenderer extends Widget implements IRenderMime.IRenderer {
  private readonly column = new PanelLayout();
  private view: View | undefined;
  private block: Block | undefined;
  private newest: IRenderMime.IMimeModel | undefined;
  private shown: IRenderMime.IMimeModel | undefined;
  private live: LiveWidget | undefined;
  private drawing: Promise<void> | undefined;

  constructor(private readonly createView: (kind: Block['kind']) => View | undefined) {
    super();
    this.addClass('cu-block');
    this.layout = this.column;
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.newest = model;
    this.drawing ??= this.drawNewest().finally(() => {
      this.drawing = undefined;
    });
    return this.drawing;
  }

  protected override onAfterAttach(): void {
    this.showWidget();
    this.foldWhenDone();
  }

  private async drawNewest(): Promise<void> {
    while (this.newest && !this.isDisposed) {
      const model = this.newest;
      this.newest = undefined;
      try {
        await this.draw(model);
      } catch (error) {
        console.warn('cumulus-jupyter: a block could not be drawn', error);
        this.drawTwin(model);
      }
    }
  }

  private async draw(model: IRenderMime.IMimeModel): Promise<void> {
    const block = asBlock(model.data[MIME]);
    if (block && block.kind !== this.block?.kind) {
      this.view?.dispose();
      this.node.replaceChildren();
      this.view = this.createView(block.kind);
      if (this.view) {
        this.column.addWidget(this.view);
      }
    }
    if (!block || !this.view) {
      this.drawTwin(model);
      return;
    }
    this.block = block;
    mark(this.node, { run: block.run, kind: block.kind, status: outcome(block) });
    await this.view.draw(block);
    tickAlong();
    this.shown = model;
    this.showWidget();
    this.foldWhenDone();
  }

  /** Have the kernel's widget, where the bundle names one; the one that is there stays. */
  private showWidget(): void {
    const { shown, live } = this;
    const id = shown ? widgetId(shown) : '';
    if (id === (live?.modelId ?? '') || (id && !this.isAttached)) {
      return;
    }
    live?.dispose();
    this.live = id && shown ? new LiveWidget(this, id, shown) : undefined;
    if (this.live) {
      this.column.addWidget(this.live);
    }
  }

  /** The text twin, or one line that says why there is nothing to see. */
  private drawTwin(model: IRenderMime.IMimeModel): void {
    this.view?.dispose();
    this.live?.dispose();
    this.view = this.block = this.shown = this.live = undefined;
    const twin = model.data['text/plain'];
    const text = Array.isArray(twin) ? twin.join('') : typeof twin === 'string' ? twin : '';
    const note = 'This block was made by a newer cumulus-jupyter. Update it here and reload the page.';
    this.node.replaceChildren(text ? el('pre', 'cu-twin', text) : el('div', 'cu-origin', note));
  }

  private foldWhenDone(): void {
    const { block } = this;
    if (this.isAttached && block?.kind === 'status' && block.role === 'foot' && outcome(block) === 'done') {
      foldSteps(this.node, block.run);
    }
  }
}

function outcome(block: Block): string {
  switch (block.kind) {
    case 'text':
      return block.tone ?? (block.markdown.trim() ? '' : 'empty');
    case 'todos':
      return block.items.every(item => item.status === 'completed') ? 'completed' : '';
    case 'question':
      return block.outcome;
    case 'panel':
      return '';
    case 'status':
      return block.state === 'closed' ? block.status : '';
    default:
      return block.status;
  }
}
