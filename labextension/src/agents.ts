/** A sub-agent in its parent's cell: a line that opens to its task, its steps and its result. */

import { drawMark } from './blocks/tool';
import { View } from './blocks/view';
import { everySecond, secondsSince } from './clock';
import { el, prose, scrolling, setText } from './dom';
import { clockTime, duration, plural } from './figures';
import type { AgentBlock } from './protocol';

export class AgentView extends View {
  private readonly mark = el('span', 'cu-mark');
  private readonly what = el('span', 'cu-what');
  private readonly aside = el('span', 'cu-aside');
  private readonly task = scrolling(el('pre', 'cu-arguments'), 'task');
  private readonly steps = el('ol', 'cu-agent-steps');
  private readonly result = scrolling(el('pre', 'cu-result'), 'result');
  private stopClock: (() => void) | undefined;

  constructor() {
    super();
    this.addClass('cu-rail');
    const summary = el('summary', 'cu-line', this.mark, this.what, this.aside);
    summary.dataset['lmSuppressShortcuts'] = 'true';
    this.task.dir = this.result.dir = 'auto';
    const inside = el('div', 'cu-io cu-agent', this.task, this.steps, this.result);
    this.node.append(el('details', 'cu-details', summary, inside));
  }

  draw(block: AgentBlock): void {
    drawMark(this.mark, block.status);
    const doing = block.error || block.activity;
    this.what.replaceChildren('agent ', prose('cu-agent-name', block.name), ...(doing ? [' — ', prose('', doing)] : []));
    this.what.title = `${block.name}: ${block.task}`.slice(0, 400);
    setText(this.task, block.task);
    this.drawSteps(block);
    setText(this.result, block.text);
    this.stopClock?.();
    this.stopClock = undefined;
    if (block.word === 'running' && block.state === 'open') {
      this.stopClock = everySecond(() => {
        setText(this.aside, asideText(block, clockTime(secondsSince(block.started))));
      });
    } else {
      setText(this.aside, asideText(block, block.seconds === null ? '' : duration(block.seconds)));
    }
  }

  override dispose(): void {
    this.stopClock?.();
    super.dispose();
  }

  private drawSteps({ steps, earlier }: AgentBlock): void {
    const rows = steps.map(({ status, text }) => {
      const sign = el('span', 'cu-mark');
      drawMark(sign, status);
      return el('li', 'cu-agent-step', sign, prose('', text));
    });
    const before = earlier ? [el('li', 'cu-agent-step', `… ${plural(earlier, 'earlier step')}`)] : [];
    this.steps.replaceChildren(...before, ...rows);
    this.steps.hidden = !rows.length;
  }
}

function asideText(block: AgentBlock, time: string): string {
  const rounds = block.rounds ? plural(block.rounds, 'round') : '';
  const word = block.status === 'waiting' && block.word === 'running' ? 'waits for you' : block.word;
  return [word, rounds, time].filter(part => part).join(' · ');
}
