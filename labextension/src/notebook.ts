/** What the kernel may ask of the live notebook. Cells are named by id; every edit is one undoable step. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { clear_outputs, insert, move, remove, replace, set_kind } from './edits';
import { cellIds, indexOf, modelOf, type Place, type Values } from './place';
import { BridgeError, PROTOCOL, type Request } from './protocol';
import { capped, run_begin, run_end } from './running';

export const OPERATIONS: Record<string, (place: Place, request: Request) => Values | Promise<Values>> = {
  hello,
  locate,
  read,
  insert,
  replace,
  delete: remove,
  move,
  set_kind,
  clear_outputs,
  run_begin,
  run_end,
  save
};

function hello({ app, panel, client, mine }: Place): Values {
  const cells = [...modelOf(panel).cells];
  return {
    protocol: PROTOCOL,
    operations: Object.keys(OPERATIONS),
    client,
    mine,
    app: `${app.name} ${app.version}`,
    path: panel.context.path,
    active: panel.content.activeCell?.model.id ?? null,
    dirty: panel.context.model.dirty,
    cells: cells.length,
    trusted: cells.every(cell => cell.trusted || !hasOutputs(cell))
  };
}

function locate({ panel }: Place, request: Request): Values {
  const ids = cellIds(panel);
  const index = typeof request['cell_id'] === 'string' ? ids.indexOf(request['cell_id']) : -1;
  return {
    path: panel.context.path,
    dirty: panel.context.model.dirty,
    cell: index < 0 ? null : { id: ids[index], index, count: ids.length }
  };
}

function read({ panel }: Place, request: Request): Values {
  const { sharedModel } = modelOf(panel);
  const wanted = Array.isArray(request['cells']) ? (request['cells'] as unknown[]).map(String) : null;
  const ids = cellIds(panel);
  wanted?.forEach(id => indexOf(ids, id));
  const cells = sharedModel.cells
    .filter(cell => wanted?.includes(cell.id) ?? true)
    .map(cell => {
      const { cell_type, execution_count = null, outputs = [] } = cell.toJSON() as Values;
      const { trusted: _, ...metadata } = cell.getMetadata(); // a mark of this session; the file has none
      const row: Values = { id: cell.id, cell_type, source: cell.getSource(), execution_count, metadata };
      return request['outputs'] && cell_type === 'code' ? { ...row, outputs: capped(outputs) } : row;
    });
  const { nbformat, nbformat_minor } = sharedModel;
  return { path: panel.context.path, nbformat, nbformat_minor, cells };
}

const saving = new WeakMap<NotebookPanel, Promise<unknown>>();

/** One behind the other: a save that meets another under way would take that one's file for a stranger's. */
function save(place: Place): Promise<Values> {
  const before = saving.get(place.panel) ?? Promise.resolve();
  const now = before.then(
    () => saveNow(place),
    () => saveNow(place)
  );
  saving.set(place.panel, now);
  return now;
}

async function saveNow({ app, panel }: Place): Promise<Values> {
  const { context } = panel;
  await refuseConflict(app, panel);
  try {
    await context.save();
  } catch (error) {
    throw new BridgeError('save', `Could not save ${context.path}: ${reason(error)}`);
  }
  return { path: context.path };
}

/**
 * JupyterLab's save asks in a dialog when the file changed on disk, and waits for the click: look first, with the
 * same comparison, and refuse. (Under real-time collaboration the server saves, and there is no such dialog.)
 */
async function refuseConflict(app: JupyterFrontEnd, { context }: NotebookPanel): Promise<void> {
  const mine = context.contentsModel;
  if (mine?.writable === false) {
    throw new BridgeError('save', `${context.path} is read-only.`);
  }
  if (!mine || context.model.collaborative) {
    return;
  }
  let theirs;
  try {
    theirs = await app.serviceManager.contents.get(context.path, { content: false, hash: true });
  } catch {
    return; // not on disk: saving creates it, or says what is wrong
  }
  const hashed = Boolean(mine.hash && theirs.hash);
  const later = Date.parse(theirs.last_modified) - Date.parse(mine.last_modified) > 500;
  if (hashed ? mine.hash !== theirs.hash : later) {
    throw new BridgeError(
      'save',
      `${context.path} changed on disk since JupyterLab opened it. Save it by hand and choose which version to keep.`
    );
  }
}

function hasOutputs(cell: ICellModel): boolean {
  return 'outputs' in cell && (cell as ICodeCellModel).outputs.length > 0;
}

export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
