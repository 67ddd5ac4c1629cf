import { everySecond, secondsSince } from '../clock';
import { button, el, prose, setText } from '../dom';
import { clockTime, duration, plural, tokens } from '../figures';
import type { RunStatus, StatusBlock, Usage } from '../protocol';
import { View } from './view';

/** Sends a stop for a run from where `node` stands; false when no kernel answered. */
export type Stop = (run: string, node: HTMLElement) => Promise<boolean>;

const WORDS: Record<RunStatus, string> = {
  running: 'working',
  waiting: 'waiting for you',
  done: 'done',
  needs_input: 'needs your answer',
  stopped: 'stopped',
  turn_limit: 'turn limit reached',
  truncated: 'cut off',
  refused: 'refused by the model',
  failed: 'failed'
};
/** A first drawing this long after the start, on a page younger than the run, comes from a file. */
const STORED_AFTER_SECONDS = 30;

/** The first block of a run: its live line while it runs, model and host afterwards. And the last: its end. */
export class StatusView extends View {
  private readonly dot = el('span', 'cu-dot');
  private readonly activity = el('span', 'cu-activity');
  private readonly clock = el('span', 'cu-clock');
  private readonly stopButton: HTMLButtonElement;
  private readonly live: HTMLElement;
  private stopClock: (() => void) | undefined;
  private run = '';
  private drawn = 0;

  constructor(private readonly stop: Stop) {
    super();
    this.addClass('cu-status');
    this.activity.setAttribute('role', 'status');
    this.clock.setAttribute('aria-hidden', 'true');
    this.stopButton = button('cu-button cu-stop', 'Stop', () => void this.askToStop());
    this.live = el('span', 'cu-line-live', this.dot, this.activity, this.clock);
  }

  draw(block: StatusBlock): void {
    this.stopClock?.();
    this.stopClock = undefined;
    this.run = block.run;
    this.drawn += 1;
    const open = block.role === 'head' && block.state === 'open';
    const stored = open && this.drawn === 1 && isStored(block.started);
    this.toggleClass('cu-live', open && !stored);
    this.stand();
    if (stored) {
      this.node.replaceChildren(quietLine(block, 'was still running when this was saved'));
    } else if (open) {
      this.drawLive(block);
    } else {
      this.node.replaceChildren(...(block.role === 'head' ? [quietLine(block)] : footLines(block)));
    }
  }

  override dispose(): void {
    this.stopClock?.();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    this.stand();
  }

  protected override onBeforeDetach(): void {
    standLast(this.node, false);
  }

  /** While a run lives, its first block is drawn last, where the eye is. */
  private stand(): void {
    if (this.isAttached) {
      standLast(this.node, this.hasClass('cu-live'));
    }
  }

  private drawLive(block: StatusBlock): void {
    setText(this.activity, block.activity ?? WORDS[block.status]);
    this.node.dataset['status'] = block.status;
    this.stopButton.hidden = !block.stoppable;
    if (!this.node.contains(this.live)) {
      this.node.replaceChildren(this.live, quietLine(block), this.stopButton);
    }
    this.stopClock = everySecond(() => {
      const left = block.until ? Math.ceil((block.until - Date.now()) / 1000) : 0;
      const then = block.status === 'waiting' ? 'closes in' : 'again in';
      const ends = left > 0 ? `${then} ${left < 120 ? `${left} s` : clockTime(left)}` : '';
      setText(this.clock, `· ${ends || clockTime(secondsSince(block.started))}`);
      this.dot.classList.toggle('cu-dim', block.status === 'running' && !this.dot.classList.contains('cu-dim'));
    });
  }

  private async askToStop(): Promise<void> {
    this.stopButton.disabled = true;
    setText(this.stopButton, 'Stopping…');
    if (!(await this.stop(this.run, this.node))) {
      this.stopButton.disabled = false;
      setText(this.stopButton, 'Stop');
      setText(this.activity, 'the kernel did not answer: use ■ in the toolbar');
    }
  }
}

/** Classes on the output and its area; with `:has()` the page would look for live lines at each change of a text. */
function standLast(node: HTMLElement, last: boolean): void {
  node.closest('.jp-OutputArea-child')?.classList.toggle('cu-stands-last', last);
  const area = node.closest('.jp-OutputArea');
  area?.classList.toggle('cu-has-live', area.querySelector(':scope > .cu-stands-last') !== null);
}

function isStored(started: number): boolean {
  return secondsSince(started) > STORED_AFTER_SECONDS && started < performance.timeOrigin;
}

/** Model · host · notice. */
function quietLine(block: StatusBlock, ...more: string[]): HTMLElement {
  const parts = [block.model, block.host, block.notice, ...more].filter(part => part);
  return prose('cu-origin', parts.join(' · '));
}

function footLines(block: StatusBlock): Node[] {
  const word = el('b', '', WORDS[block.status]);
  word.dataset['status'] = block.status;
  const figures = block.usage ? usageFigures(block.usage) : [];
  const next = block.next ? [prose('cu-next', block.next)] : [];
  const foot = el('div', 'cu-foot', word, ...figures.map(figure => el('span', '', figure)), ...next);
  if (!block.message) {
    return [foot];
  }
  const alert = el('div', 'cu-alert', block.message);
  alert.dir = 'auto';
  alert.dataset['status'] = block.status;
  alert.setAttribute('role', block.status === 'failed' ? 'alert' : 'note');
  return [alert, foot];
}

function usageFigures({ rounds, input, cached, output, seconds, cost }: Usage): string[] {
  const flow = `${tokens(input)} in · ${cached ? `${tokens(cached)} cached · ` : ''}${tokens(output)} out`;
  const price = cost === null || cost === 0 ? [] : [`$${cost.toFixed(cost < 0.095 ? 4 : 2)}`];
  return [plural(rounds, 'round'), flow, duration(seconds), ...price];
}
