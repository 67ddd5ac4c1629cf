import { el, prose } from '../dom';
import type { TodosBlock } from '../protocol';
import { View } from './view';

const MARKS = { pending: '☐', in_progress: '▸', completed: '☑' };
const LABELS = { pending: 'open', in_progress: 'in progress', completed: 'done' };

/** The live checklist. */
export class TodosView extends View {
  constructor() {
    super();
    this.addClass('cu-todos');
  }

  draw(block: TodosBlock): void {
    const items = block.items.map(({ label, status }) => {
      const mark = el('span', 'cu-mark', MARKS[status]);
      mark.setAttribute('role', 'img');
      mark.setAttribute('aria-label', LABELS[status]);
      const item = el('li', '', mark, prose('', label));
      item.dataset['status'] = status;
      return item;
    });
    this.node.replaceChildren(el('ul', '', ...items));
  }
}
