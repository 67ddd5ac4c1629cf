/** Where a request is carried out, and how its cells are found. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { BridgeError } from './protocol';

export interface Place {
  app: JupyterFrontEnd;
  rendermime: IRenderMimeRegistry;
  panel: NotebookPanel;
  /** This page's kernel client. */
  client: string;
  /** This page ran the cell that opened the comm. */
  mine: boolean;
}

export type Values = Record<string, unknown>;

export function modelOf(panel: NotebookPanel): INotebookModel {
  const { model } = panel.content;
  if (!model) {
    throw new BridgeError('not_ready', 'The notebook is still loading. Ask again.');
  }
  return model;
}

export function cellIds(panel: NotebookPanel): string[] {
  return modelOf(panel).sharedModel.cells.map(cell => cell.id);
}

export function indexOf(ids: string[], id: string): number {
  const index = ids.indexOf(id);
  if (index < 0) {
    throw new BridgeError('unknown_cell', `No cell has the id ${id}. Read the notebook again.`);
  }
  return index;
}

/** A cell that is running or waits for its turn. */
export function isBusy(panel: NotebookPanel, index: number): boolean {
  const { executionState } = (panel.content.widgets[index]?.model ?? {}) as { executionState?: string };
  return executionState === 'running';
}
