/** Edits of the live notebook: each names its cell by id, is one undoable step, and never overwrites newer typing. */

import type { Cell, MarkdownCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { loadsNothing } from './markdown';
import { cellIds, indexOf, isBusy, modelOf, type Place, type Values } from './place';
import { BridgeError, type Request } from './protocol';

type Kind = 'code' | 'markdown' | 'raw';
type Shared = ReturnType<typeof modelOf>['sharedModel'];
type Insertable = Parameters<Shared['insertCell']>[1];

/** What the kernel saw of a cell: it is edited only while it still is so. */
interface Expected {
  kind?: unknown;
  source?: unknown;
}

export async function insert({ panel, rendermime }: Place, request: Request): Promise<Values> {
  const kind = kindOf(request);
  const source = sourceOf(request);
  const rendered = kind === 'markdown' && (await loadsNothing(source, rendermime.markdownParser));
  const { sharedModel } = modelOf(panel);
  const index = placeOf(cellIds(panel), request) ?? sharedModel.cells.length;
  const { metadata = {} } = request;
  const outputs = kind === 'code' ? { outputs: [] } : {};
  step(sharedModel, () => {
    sharedModel.insertCell(index, { cell_type: kind, source, metadata, ...outputs } as Insertable);
  });
  const added = sharedModel.cells[index];
  if (!added) {
    throw new BridgeError('insert', 'The notebook did not show the new cell.');
  }
  return shown(panel, added.id, rendered);
}

export async function replace({ panel, rendermime }: Place, request: Request): Promise<Values> {
  const source = sourceOf(request);
  const quiet = await loadsNothing(source, rendermime.markdownParser);
  const { id, index } = named(panel, request);
  const { sharedModel } = modelOf(panel);
  const widget = panel.content.widgets[index];
  if (widget && isMarkdown(widget) && !quiet) {
    widget.rendered = false;
  }
  step(sharedModel, () => {
    sharedModel.cells[index]?.setSource(source);
  });
  return shown(panel, id);
}

export function remove({ panel }: Place, request: Request): Values {
  const { id, index } = named(panel, request, true);
  const { sharedModel } = modelOf(panel);
  step(sharedModel, () => {
    sharedModel.deleteCell(index);
  });
  return { cell_id: id, index, count: sharedModel.cells.length };
}

export function move({ panel }: Place, request: Request): Values {
  const { id, index } = named(panel, request, true);
  const { sharedModel } = modelOf(panel);
  const at = placeOf(cellIds(panel), request);
  if (at === null) {
    throw new BridgeError('bad_request', 'move needs after or before.');
  }
  const to = at > index ? at - 1 : at;
  if (to !== index) {
    step(sharedModel, () => {
      sharedModel.moveCells(index, to);
    });
  }
  return shown(panel, id);
}

export async function set_kind({ panel, rendermime }: Place, request: Request): Promise<Values> {
  const kind = kindOf(request);
  const before = named(panel, request, true);
  const text = modelOf(panel).sharedModel.cells[before.index]?.getSource() ?? '';
  const rendered = kind === 'markdown' && (await loadsNothing(text, rendermime.markdownParser));
  const { id, index } = named(panel, request, true); // the person may have typed while the check ran
  const { sharedModel } = modelOf(panel);
  const { cell_type: _, outputs: _outputs, execution_count: _count, ...kept } = cellJSON(sharedModel, index);
  const { trusted: _trusted, ...metadata } = (kept['metadata'] ?? {}) as Values;
  const outputs = kind === 'code' ? { outputs: [] } : {};
  step(sharedModel, () => {
    sharedModel.deleteCell(index);
    sharedModel.insertCell(index, { ...kept, metadata, cell_type: kind, ...outputs } as unknown as Insertable);
  });
  return shown(panel, id, rendered);
}

/** Of one cell, or without `cell_id` of all that aren't running. */
export function clear_outputs({ panel }: Place, request: Request): Values {
  const { sharedModel } = modelOf(panel);
  const one = typeof request['cell_id'] === 'string' ? named(panel, request, true) : null;
  const cells = sharedModel.cells.flatMap((cell, index) => {
    const wanted = one ? one.index === index : !isBusy(panel, index);
    return wanted && cell.cell_type === 'code' ? [cell] : [];
  });
  const full = cells.filter(cell => 'outputs' in cell && cell.outputs.length > 0);
  const outputs = full.reduce((sum, cell) => sum + ('outputs' in cell ? cell.outputs.length : 0), 0);
  step(sharedModel, () => {
    for (const cell of cells) {
      if ('setOutputs' in cell) {
        cell.setOutputs([]);
        cell.execution_count = null;
      }
    }
  });
  const facts = { outputs, cleared: full.length };
  const first = one?.id ?? full[0]?.id;
  return first === undefined ? { ...facts, count: sharedModel.cells.length } : { ...shown(panel, first), ...facts };
}

/** Otherwise Yjs joins edits less than half a second apart into one undo step. */
function step(sharedModel: Shared, edit: () => void): void {
  const { undoManager } = sharedModel as { undoManager?: { stopCapturing(): void } };
  undoManager?.stopCapturing();
  sharedModel.transact(edit);
  undoManager?.stopCapturing();
}

/** The cell that a request names, if it still is what the kernel saw; `whole`: its outputs are at stake too. */
export function named(panel: NotebookPanel, request: Request, whole = false): { id: string; index: number } {
  const id = String(request['cell_id']);
  const index = indexOf(cellIds(panel), id);
  const cell = modelOf(panel).sharedModel.cells[index];
  const expected = request['expected'] as Expected | undefined;
  if (expected && (expected.source !== cell?.getSource() || expected.kind !== cell?.cell_type)) {
    throw new BridgeError('changed', `Cell ${id} has changed since you read it; read it again first.`);
  }
  if (whole && isBusy(panel, index)) {
    throw new BridgeError('busy', `Cell ${id} is running or waits for its turn: what it shows would be lost.`);
  }
  return { id, index };
}

function shown(panel: NotebookPanel, id: string, rendered?: boolean): Values {
  const ids = cellIds(panel);
  const index = ids.indexOf(id);
  const widget = panel.content.widgets[index];
  if (widget?.model.id !== id) {
    throw new BridgeError('failed', `The notebook does not show cell ${id}.`);
  }
  if (isMarkdown(widget) && rendered !== undefined) {
    widget.rendered = rendered;
  }
  touch(widget.node);
  return { cell_id: id, index, count: ids.length };
}

function placeOf(ids: string[], { after, before }: Request): number | null {
  if (typeof after === 'string' && typeof before === 'string') {
    throw new BridgeError('bad_request', 'Give after or before, not both.');
  }
  if (typeof after === 'string') {
    return indexOf(ids, after) + 1;
  }
  return typeof before === 'string' ? indexOf(ids, before) : null;
}

function kindOf({ kind }: Request): Kind {
  if (kind !== 'code' && kind !== 'markdown' && kind !== 'raw') {
    throw new BridgeError('bad_request', 'A kind is code, markdown or raw.');
  }
  return kind;
}

function sourceOf({ source }: Request): string {
  if (typeof source !== 'string') {
    throw new BridgeError('bad_request', 'A source is a text.');
  }
  return source;
}

function cellJSON(sharedModel: Shared, index: number): Values {
  return sharedModel.cells[index]?.toJSON() ?? {};
}

/** By type, not by class: the class would bind us to one copy of JupyterLab's cell package. */
function isMarkdown(cell: Cell): cell is MarkdownCell {
  return cell.model.type === 'markdown';
}

/** A calm mark on a cell that the agent made or changed, until the person goes into it. */
function touch(node: HTMLElement): void {
  node.classList.add('cu-touched');
  for (const event of ['pointerdown', 'focusin']) {
    node.addEventListener(event, () => { node.classList.remove('cu-touched'); }, { once: true });
  }
}
