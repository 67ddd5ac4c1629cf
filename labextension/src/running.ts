/**
 * Running a cell while the agent's own cell keeps the kernel busy: the kernel runs the code itself, as if it answered
 * the request of a placeholder. That request does nothing; it waits behind the agent's cell.
 */

import type { Cell, CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { named } from './edits';
import type { Place, Values } from './place';
import { BridgeError, type Request } from './protocol';

/** How much of outputs goes to the kernel: characters of one text and of one picture, and how many pictures. */
interface Limits {
  readonly text: number;
  readonly picture: number;
  pictures: number;
}

const AFTER_RUN: Readonly<Limits> = { text: 100_000, picture: 2_000_000, pictures: 50 };
/** A read shows less of each output, and may be of thousands of cells. */
const IN_READ: Readonly<Limits> = { text: 4_000, picture: 2_000_000, pictures: 12 };

export function run_begin({ panel }: Place, request: Request): Values {
  const { index } = named(panel, request, true);
  const cell = codeCell(panel, index);
  const kernel = panel.sessionContext.session?.kernel;
  if (!kernel) {
    throw new BridgeError('closed', 'The notebook has no kernel.');
  }
  const content = { code: '', silent: true, store_history: false, stop_on_error: false, allow_stdin: true };
  const future = kernel.requestExecute(content, false, { cellId: cell.model.id });
  cell.model.sharedModel.transact(() => { cell.model.clearExecution(); }, false);
  cell.outputHidden = false;
  cell.outputArea.future = future;
  cell.model.trusted = true;
  cell.model.executionState = 'running';
  const idle = (): void => { cell.model.executionState = 'idle'; };
  void future.done.then(idle, idle); // also where the kernel is restarted meanwhile
  return { cell_id: cell.model.id, msg_id: future.msg.header.msg_id };
}

export function run_end({ panel }: Place, request: Request): Values {
  const { id, index } = named(panel, request);
  const cell = codeCell(panel, index);
  const count = request['execution_count'];
  cell.model.executionCount = typeof count === 'number' ? count : null;
  cell.model.executionState = 'idle';
  return { cell_id: id, outputs: capped(cell.model.outputs.toJSON(), { ...AFTER_RUN }) };
}

function codeCell(panel: NotebookPanel, index: number): CodeCell {
  const cell = panel.content.widgets[index];
  if (!cell || !isCode(cell)) {
    throw new BridgeError('bad_request', 'Only code cells can be run.');
  }
  return cell;
}

/** By type, not by class: the class would bind us to one copy of JupyterLab's cell package. */
function isCode(cell: Cell): cell is CodeCell {
  return cell.model.type === 'code';
}

/** The limits of one read, to be used up by its cells. */
export function readLimits(): Limits {
  return { ...IN_READ };
}

/** The same with long texts cut in their middle: what nobody will read is not sent. */
export function capped(value: unknown, limits: Limits, key = ''): unknown {
  if (typeof value === 'string') {
    if (key.startsWith('image/') && value.length <= limits.picture && limits.pictures > 0) {
      limits.pictures -= 1;
      return value;
    }
    return cut(value, limits.text);
  }
  if (Array.isArray(value)) {
    return value.map(item => capped(item, limits, key));
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, capped(item, limits, name)]));
  }
  return value;
}

/** The kernel reads the count in the middle line. */
function cut(text: string, most: number): string {
  const left = text.length - most;
  const half = most / 2;
  return left <= 0 ? text : `${text.slice(0, half)}\n[… ${left} characters left out …]\n${text.slice(-half)}`;
}
