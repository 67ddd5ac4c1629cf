/**
 * The kernel's widget of a bundle, beside its static twin. Style rules show the widget where its model is there, else
 * the twin: a form or a panel whose kernel is gone stays readable instead of "model not found".
 */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { PanelLayout, Widget } from '@lumino/widgets';

const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';
/** How long, and how often (milliseconds), a page that is loading is asked for its widget manager. */
const PATIENCE = 60_000;
const PAUSE = 300;

/** The id of the widget's model in a bundle; none in an untrusted one. */
export function widgetId(model: IRenderMime.IMimeModel): string {
  const view = model.data[WIDGET_VIEW] as { model_id?: unknown } | undefined;
  return model.trusted && typeof view?.model_id === 'string' ? view.model_id : '';
}

/** Holds a bundle's widget. Made once `place` stands in an output area: widgets belong to that area's notebook. */
export class LiveWidget extends Widget {
  private readonly rendermime: IRenderMimeRegistry | undefined;
  private readonly column = new PanelLayout();
  private factory: IRenderMime.IRendererFactory | undefined;
  private timer = 0;
  private readonly watch = new MutationObserver(() => {
    this.place.toggleClass('cu-alive', this.isThere());
  });

  constructor(
    private readonly place: Widget,
    readonly modelId: string,
    private readonly model: IRenderMime.IMimeModel
  ) {
    super();
    this.addClass('cu-widget');
    this.layout = this.column;
    this.rendermime = rendermimeAround(place);
    this.watch.observe(this.node, { childList: true, subtree: true });
    this.render(Date.now() + PATIENCE);
  }

  override dispose(): void {
    window.clearTimeout(this.timer);
    this.watch.disconnect();
    this.place.removeClass('cu-alive');
    super.dispose();
  }

  /**
   * ipywidgets registers a renderer that waits for a manager, and once the notebook has one, another that has it. It
   * hands the manager to the first ones that it finds in output areas; it does not find those in here.
   */
  private render(until: number): void {
    const factory = this.rendermime?.getFactory(WIDGET_VIEW);
    if (factory && this.rendermime && factory !== this.factory) {
      this.factory = factory;
      [...this.column.widgets].forEach(old => {
        old.dispose();
      });
      const renderer = this.rendermime.createRenderer(WIDGET_VIEW);
      this.column.addWidget(renderer);
      renderer.renderModel(this.model).catch((error: unknown) => {
        console.warn('cumulus-jupyter: a widget could not be shown', error);
      });
    }
    if (Date.now() < until && !this.isThere()) {
      this.timer = window.setTimeout(() => {
        this.render(until);
      }, PAUSE);
    }
  }

  private isThere(): boolean {
    return this.node.querySelector(':scope > * > .jupyter-widgets') !== null;
  }
}

function rendermimeAround(place: Widget): IRenderMimeRegistry | undefined {
  for (let at = place.parent; at; at = at.parent) {
    const { rendermime } = at as { rendermime?: IRenderMimeRegistry };
    if (rendermime) {
      return rendermime;
    }
  }
  return undefined;
}
