import type { ICellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { OutputArea } from '@jupyterlab/outputarea';

const watched = new WeakSet<OutputArea>();

/**
 * JupyterLab shows the first 50 outputs of a cell and hides the others behind a button. A block is one output, and a
 * run may have more: in an agent's cell all are shown.
 */
export function showEveryOutput(panel: NotebookPanel, model: ICellModel): void {
  const cell = panel.content.widgets.find(each => each.model === model);
  const area = (cell as { outputArea?: OutputArea } | undefined)?.outputArea;
  if (!area || watched.has(area)) {
    return;
  }
  watched.add(area);
  const widen = (): void => {
    if (area.model.length > area.maxNumberOutputs) {
      area.maxNumberOutputs = Infinity;
    }
  };
  area.outputLengthChanged.connect(widen);
  widen();
}
