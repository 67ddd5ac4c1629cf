import { everySecond, secondsSince } from '../clock';
import { el, prose, scrolling, setText } from '../dom';
import { clockTime, duration, grouped } from '../figures';
import type { ToolBlock, ToolStatus } from '../protocol';
import { View } from './view';

const MARKS: Partial<Record<ToolStatus, [mark: string, label: string]>> = {
  running: ['●', 'running'],
  waiting: ['‖', 'waiting'],
  ok: ['✓', 'done'],
  error: ['✗', 'failed'],
  denied: ['⊘', 'denied'],
  stopped: ['⊘', 'stopped']
};
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;
const GAP = /^(\[\.\.\. [\d,. ]+ (?:characters?|elements?|lines?) omitted \.\.\.\])$/m;

/** Show the sign of a status, and its name to those who don't see it. */
export function drawMark(node: HTMLElement, status: ToolStatus): void {
  const [mark, label] = MARKS[status] ?? ['·', status];
  setText(node, mark);
  node.dataset['status'] = status;
  node.setAttribute('role', 'img');
  node.setAttribute('aria-label', label);
}

/** One tool call: a line on the rail that opens to its arguments and its result. */
export class ToolView extends View {
  private readonly mark = el('span', 'cu-mark');
  private readonly what = el('span', 'cu-what');
  private readonly aside = el('span', 'cu-aside');
  private readonly args = scrolling(el('pre', 'cu-arguments'), 'arguments');
  private readonly result = scrolling(el('pre', 'cu-result'), 'result');
  private readonly pictures = el('div', 'cu-pictures');
  private readonly tail = el('pre', 'cu-tail');
  private readonly details: HTMLDetailsElement;
  private stopClock: (() => void) | undefined;

  constructor() {
    super();
    this.addClass('cu-rail');
    const summary = el('summary', 'cu-line', this.mark, this.what, this.aside);
    summary.dataset['lmSuppressShortcuts'] = 'true';
    this.details = el('details', 'cu-details', summary, el('div', 'cu-io', this.args, this.result, this.pictures));
    this.node.append(this.details, this.tail);
    this.details.addEventListener('toggle', () => {
      this.tail.hidden = this.details.open || this.tail.textContent === '';
    });
  }

  draw(block: ToolBlock): void {
    drawMark(this.mark, block.status);
    this.drawWhat(block);
    setText(this.args, block.arguments);
    this.drawResult(block.result);
    this.drawPictures(block);
    setText(this.tail, block.state === 'open' ? (block.tail ?? '').trimEnd() : '');
    this.tail.hidden = this.details.open || this.tail.textContent === '';
    this.stopClock?.();
    this.stopClock = undefined;
    if (block.status === 'running' && block.state === 'open' && block.started !== undefined) {
      const { started } = block;
      this.stopClock = everySecond(() => {
        setText(this.aside, asideText(block, `running · ${clockTime(secondsSince(started))}`));
      });
    } else {
      setText(this.aside, asideText(block, block.seconds === null ? '' : duration(block.seconds)));
    }
  }

  override dispose(): void {
    this.stopClock?.();
    super.dispose();
  }

  private drawWhat(block: ToolBlock): void {
    const object = block.object_kind === 'code' ? el('code', '', block.object) : prose('', block.object);
    object.dir = block.object_kind === 'code' ? 'ltr' : 'auto';
    const note = block.note ? [' — ', prose('', block.note)] : [];
    this.what.replaceChildren(prose('', block.verb), ' ', object, ...note);
    this.what.title = `${block.name}: ${block.object}`.slice(0, 400);
  }

  private drawPictures({ pictures = [], object }: ToolBlock): void {
    const images = pictures.filter(source => PICTURE.test(source)).map(source => {
      const image = el('img', 'cu-picture');
      image.src = source;
      image.alt = object;
      return image;
    });
    this.pictures.replaceChildren(...images);
  }

  private drawResult(result: string): void {
    if (this.result.textContent !== result) {
      const pieces = result.split(GAP);
      this.result.replaceChildren(...pieces.map((piece, index) => (index % 2 ? el('span', 'cu-gap', piece) : piece)));
    }
  }
}

/** Window figure, what the tool says of itself, time: each once, also when `aside` already holds one of them. */
function asideText(block: ToolBlock, time: string): string {
  const { window } = block;
  const shown = window ? `${grouped(window.shown)} of ${grouped(window.total)} characters` : '';
  return [shown, block.aside, time].filter((part, i) => part && (i === 1 || !block.aside.includes(part))).join(' · ');
}
