/**
 * Running a cell while the agent's own cell keeps the kernel busy: the kernel runs the code itself, as if it answered
 * the request of a placeholder. That request does nothing; it waits behind the agent's cell.
 */

import type { Cell, CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { named } from './edits';
import type { Place, Values } from './place';
import { BridgeError, type Request } from './protocol';

/** Characters of one text of an output that go back to the kernel; pictures may be longer. */
const TEXT = 100_000;
const PICTURE = 2_000_000;

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
  return { cell_id: id, outputs: capped(cell.model.outputs.toJSON()) };
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

/** The same with long texts cut in their middle: what nobody will read is not sent. */
export function capped(value: unknown, key = ''): unknown {
  if (typeof value === 'string') {
    return key.startsWith('image/') && value.length <= PICTURE ? value : cut(value);
  }
  if (Array.isArray(value)) {
    return value.map(item => capped(item, key));
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, capped(item, name)]));
  }
  return value;
}

function cut(text: string): string {
  const left = text.length - TEXT;
  const half = TEXT / 2;
  return left <= 0 ? text : `${text.slice(0, half)}\n[… ${left} characters left out …]\n${text.slice(-half)}`;
}
