/** What the kernel may ask of the live notebook. Cells are named by id; every edit is one undoable step. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICellModel, ICodeCellModel, MarkdownCell } from '@jupyterlab/cells';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { loadsNothing } from './markdown';
import { BridgeError, PROTOCOL, type Request } from './protocol';

export interface Place {
  app: JupyterFrontEnd;
  rendermime: IRenderMimeRegistry;
  panel: NotebookPanel;
  /** This page's kernel client. */
  client: string;
  /** This page ran the cell that opened the comm. */
  mine: boolean;
}

type Values = Record<string, unknown>;

export const OPERATIONS: Record<string, (place: Place, request: Request) => Values | Promise<Values>> = {
  hello,
  locate,
  read,
  insert,
  save
};

function hello({ app, panel, client, mine }: Place): Values {
  const cells = [...modelOf(panel).cells];
  return {
    protocol: PROTOCOL,
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
      return request['outputs'] && cell_type === 'code' ? { ...row, outputs } : row;
    });
  const { nbformat, nbformat_minor } = sharedModel;
  return { path: panel.context.path, nbformat, nbformat_minor, cells };
}

async function insert({ panel, rendermime }: Place, request: Request): Promise<Values> {
  const { kind, source, metadata = {} } = request;
  if ((kind !== 'code' && kind !== 'markdown' && kind !== 'raw') || typeof source !== 'string') {
    throw new BridgeError('bad_request', 'insert needs kind (code, markdown or raw) and source (text).');
  }
  const rendered = kind === 'markdown' && (await loadsNothing(source, rendermime.markdownParser));
  const { sharedModel } = modelOf(panel);
  const index = insertionIndex(cellIds(panel), request);
  const outputs = kind === 'code' ? { outputs: [] } : {};
  const cell = { cell_type: kind, source, metadata: metadata as Record<string, never>, ...outputs };
  // Otherwise Yjs joins edits less than half a second apart into one undo step.
  const { undoManager } = sharedModel as { undoManager?: { stopCapturing(): void } };
  undoManager?.stopCapturing();
  sharedModel.transact(() => sharedModel.insertCell(index, cell));
  undoManager?.stopCapturing();
  const widget = panel.content.widgets[index];
  const added = sharedModel.cells[index];
  if (!widget || !added || widget.model.id !== added.id) {
    throw new BridgeError('insert', 'The notebook did not show the new cell.');
  }
  if (isMarkdown(widget)) {
    widget.rendered = rendered;
  }
  touch(widget.node);
  return { cell_id: added.id, index, count: sharedModel.cells.length };
}

async function save({ app, panel }: Place): Promise<Values> {
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

function insertionIndex(ids: string[], { after, before }: Request): number {
  if (typeof after === 'string' && typeof before === 'string') {
    throw new BridgeError('bad_request', 'insert takes after or before, not both.');
  }
  if (typeof after === 'string') {
    return indexOf(ids, after) + 1;
  }
  return typeof before === 'string' ? indexOf(ids, before) : ids.length;
}

function indexOf(ids: string[], id: string): number {
  const index = ids.indexOf(id);
  if (index < 0) {
    throw new BridgeError('unknown_cell', `No cell has the id ${id}. The ids are: ${ids.join(', ')}.`);
  }
  return index;
}

function cellIds(panel: NotebookPanel): string[] {
  return modelOf(panel).sharedModel.cells.map(cell => cell.id);
}

function modelOf(panel: NotebookPanel): INotebookModel {
  const { model } = panel.content;
  if (!model) {
    throw new BridgeError('not_ready', 'The notebook is still loading. Ask again.');
  }
  return model;
}

function hasOutputs(cell: ICellModel): boolean {
  return 'outputs' in cell && (cell as ICodeCellModel).outputs.length > 0;
}

/** By type, not by class: the class would bind us to one copy of JupyterLab's cell package. */
function isMarkdown(cell: { model: { type: string } }): cell is MarkdownCell {
  return cell.model.type === 'markdown';
}

/** A calm mark on a cell that the agent made, until the person goes into it. */
function touch(node: HTMLElement): void {
  node.classList.add('cu-touched');
  for (const event of ['pointerdown', 'focusin']) {
    node.addEventListener(event, () => { node.classList.remove('cu-touched'); }, { once: true });
  }
}

export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
