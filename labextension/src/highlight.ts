/** Cells that start with `%%agent` are prose: they get JupyterLab's markdown mode. */

import type { ICellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

const PROSE = 'text/x-ipythongfm';
const MAGIC = /^\s*%%agent(\s|$)/;

export function isAgentCell(model: ICellModel): boolean {
  return model.type === 'code' && MAGIC.test(model.sharedModel.getSource());
}

/**
 * Keep the mode of a notebook's cells right. Work is per changed cell and at most once a frame, so that typing in a
 * long notebook costs one cell. JupyterLab sets every mode anew when a kernel says its language: that is a change too.
 */
export function highlightAgentCells(panel: NotebookPanel, onAgentCell: (model: ICellModel) => void): void {
  const watched = new WeakSet<ICellModel>();
  const changed = new Set<ICellModel>();

  const look = (model: ICellModel): void => {
    if (changed.size === 0) {
      requestAnimationFrame(() => {
        changed.forEach(tag);
        changed.clear();
      });
    }
    changed.add(model);
  };
  const tag = (model: ICellModel): void => {
    if (panel.isDisposed || model.isDisposed) {
      return;
    }
    const isAgent = isAgentCell(model);
    if (isAgent) {
      onAgentCell(model);
    }
    if (isAgent && model.mimeType !== PROSE) {
      model.mimeType = PROSE;
    } else if (!isAgent && model.mimeType === PROSE) {
      model.mimeType = panel.content.codeMimetype;
    }
  };
  const watch = (): void => {
    for (const model of panel.content.model?.cells ?? []) {
      if (model.type === 'code' && !watched.has(model)) {
        watched.add(model);
        look(model);
        model.mimeTypeChanged.connect(() => {
          look(model);
        });
        model.sharedModel.changed.connect((_, change) => {
          if ('sourceChange' in change) {
            look(model);
          }
        });
      }
    }
  };
  panel.content.model?.cells.changed.connect(watch);
  watch();
}
