/** What the kernel may ask of the live notebook. Cells are named by id; every edit is one undoable step. */

import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { clear_outputs, insert, move, remove, replace, set_kind } from './edits';
import { cellIds, indexOf, modelOf, type Place, type Values } from './place';
import { PROTOCOL, type Request } from './protocol';
import { capped, readLimits, run_begin, run_end } from './running';
import { save } from './saves';

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
  const { outputs: shown } = request; // true, or the ids of the cells whose outputs are asked for
  const limits = readLimits();
  const cells = sharedModel.cells
    .filter(cell => wanted?.includes(cell.id) ?? true)
    .map(cell => {
      const { cell_type, execution_count = null, outputs = [] } = cell.toJSON() as Values;
      const { trusted: _, ...metadata } = cell.getMetadata(); // a mark of this session; the file has none
      const row: Values = { id: cell.id, cell_type, source: cell.getSource(), execution_count, metadata };
      const full = cell_type === 'code' && (Array.isArray(shown) ? shown.includes(cell.id) : Boolean(shown));
      return full ? { ...row, outputs: capped(outputs, limits) } : row;
    });
  const { nbformat, nbformat_minor } = sharedModel;
  return { path: panel.context.path, nbformat, nbformat_minor, cells };
}

function hasOutputs(cell: ICellModel): boolean {
  return 'outputs' in cell && (cell as ICodeCellModel).outputs.length > 0;
}
