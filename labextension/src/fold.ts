/** When a run is done, the steps before its final text fold behind one line. */

import { button, el, setText } from './dom';
import { plural } from './figures';

/** What a block's node tells about itself, for siblings in the same output area. */
export interface Marks {
  run: string;
  kind: string;
  /** `ok`, `error`, `answered`, `completed`…: the part of a status that decides about folding. */
  status: string;
}

export function mark(node: HTMLElement, { run, kind, status }: Marks): void {
  node.dataset['run'] = run;
  node.dataset['kind'] = kind;
  node.dataset['outcome'] = status;
}

/** Fold the finished steps of the run whose foot is `foot`. Does nothing twice; only looks at its own output area. */
export function foldSteps(foot: HTMLElement, run: string): void {
  const area = foot.closest('.jp-OutputArea');
  const blocks = [...(area?.querySelectorAll<HTMLElement>('.cu-block') ?? [])].filter(b => b.dataset['run'] === run);
  const isText = (block: HTMLElement): boolean =>
    block.dataset['kind'] === 'text' && block.dataset['outcome'] === '';
  const steps = blocks.slice(0, blocks.findLastIndex(isText)).filter(isFinishedStep);
  const first = steps[0];
  if (!first || steps.length < 2 || first.querySelector(':scope > .cu-fold')) {
    return;
  }
  const toggle = button('cu-line cu-fold-toggle', '', () => {
    show(steps, toggle.getAttribute('aria-expanded') === 'false', toggle);
  });
  const sign = el('span', 'cu-mark', '✓');
  sign.dataset['status'] = 'ok';
  sign.setAttribute('aria-hidden', 'true');
  toggle.append(sign, el('span', 'cu-what', summary(steps)), el('span', 'cu-aside', ''));
  first.prepend(el('div', 'cu-rail cu-fold', toggle));
  show(steps, false, toggle);
}

function isFinishedStep(block: HTMLElement): boolean {
  const { kind, outcome } = block.dataset;
  return (
    (kind === 'tool' && outcome === 'ok') ||
    (kind === 'agent' && outcome !== 'error') ||
    (kind === 'question' && outcome === 'answered') ||
    (kind === 'todos' && outcome === 'completed')
  );
}

function summary(steps: HTMLElement[]): string {
  const count = (kind: string): number => steps.filter(step => step.dataset['kind'] === kind).length;
  const parts: [number, string][] = [
    [count('tool'), 'step'],
    [count('question'), 'answer'],
    [count('agent'), 'agent']
  ];
  const said = parts.filter(([number]) => number > 0).map(([number, noun]) => plural(number, noun));
  return said.join(', ') || 'todos done';
}

function show(steps: HTMLElement[], shown: boolean, toggle: HTMLElement): void {
  toggle.setAttribute('aria-expanded', String(shown));
  const aside = toggle.querySelector('.cu-aside');
  if (aside) {
    setText(aside, shown ? 'hide' : 'show');
  }
  for (const [index, step] of steps.entries()) {
    // The first one carries the toggle, so only its inside is hidden.
    step.classList.toggle('cu-folded-inside', index === 0 && !shown);
    step.closest('.jp-OutputArea-child')?.classList.toggle('cu-folded', index > 0 && !shown);
  }
}
