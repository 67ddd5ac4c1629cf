import { el, prose } from '../dom';
import type { CardBlock } from '../protocol';
import { ToolView } from './tool';
import { View } from './view';

/** A panel's or a sub-agent's text twin; an agent with a status is one more line on the rail. */
export class CardView extends View {
  private line: ToolView | undefined;

  draw(block: CardBlock): void {
    if (block.kind === 'agent' && block.status) {
      this.drawLine(block, block.status);
      return;
    }
    this.addClass('cu-card');
    const text = el('div', 'cu-card-text', block.text);
    text.dir = 'auto';
    this.node.replaceChildren(...(block.title ? [prose('cu-card-title', block.title)] : []), text);
  }

  override dispose(): void {
    this.line?.dispose();
    super.dispose();
  }

  private drawLine(block: CardBlock, status: NonNullable<CardBlock['status']>): void {
    const { title, text, seconds = null, started, note } = block;
    if (!this.line) {
      this.line = new ToolView();
      this.node.replaceChildren(this.line.node);
    }
    this.line.draw({
      ...block,
      kind: 'tool',
      name: 'agent',
      verb: 'agent',
      object: title,
      object_kind: 'code',
      status,
      seconds,
      aside: '',
      arguments: '',
      result: text,
      ...(started === undefined ? {} : { started }),
      ...(note === undefined ? {} : { note })
    });
  }
}
