import { el, isRightToLeft, prose } from '../dom';
import type { QuestionBlock } from '../protocol';
import { View } from './view';

const UNANSWERED: Partial<Record<QuestionBlock['outcome'], string>> = {
  declined: 'declined',
  timed_out: 'no answer in time',
  no_user: 'nobody could be reached',
  closed: 'closed without an answer'
};

/** A question's static twin: its text while open (the live form is a widget), one line an answer afterwards. */
export class QuestionView extends View {
  draw(block: QuestionBlock): void {
    const open = block.outcome === 'open';
    this.toggleClass('cu-ask', open);
    this.toggleClass('cu-rtl', open && isRightToLeft(block.questions.map(({ question }) => question).join(' ')));
    this.node.replaceChildren(...(open ? openQuestions(block) : outcomeLines(block)));
  }
}

function openQuestions({ questions, detail }: QuestionBlock): Node[] {
  const parts: Node[] = detail ? [el('pre', 'cu-detail', detail)] : [];
  for (const { header, question, options } of questions) {
    const list = el('ul', 'cu-options');
    for (const option of options) {
      const item = el('li', 'cu-option', prose('', option.label));
      if (option.description) {
        item.append(prose('cu-option-description', option.description));
      }
      list.append(item);
    }
    parts.push(...(header ? [prose('cu-chip', header)] : []), prose('cu-question', question), list);
  }
  return parts;
}

function outcomeLines({ questions, outcome, answers }: QuestionBlock): Node[] {
  const answered = outcome === 'answered';
  const said = UNANSWERED[outcome] ?? outcome;
  const unanswered = questions.map(({ header, question }) => ({ header: header || question, answer: said }));
  const pairs = answers.length ? answers : unanswered;
  return pairs.map(({ header, answer }) => {
    const sign = el('span', 'cu-mark', answered ? '✓' : '–');
    sign.setAttribute('aria-hidden', 'true');
    const text = el('span', 'cu-what cu-wrap', prose('', header), ': ', prose('cu-given', answer));
    text.append(answered ? ' — your answer' : '');
    return el('div', 'cu-rail', el('div', 'cu-line', sign, text));
  });
}
