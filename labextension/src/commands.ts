/** Running and stopping the agent from the command palette and from a `%%agent` cell's own toolbar. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { runIcon, stopIcon } from '@jupyterlab/ui-components';
import type { Bridge } from './bridge';
import { isAgentCell } from './highlight';

const RUN = 'cumulus:run';
const STOP = 'cumulus:stop';
const RUN_OR_STOP = 'cumulus:run-or-stop';
const CATEGORY = 'Agent';

export function addCommands(
  { commands }: JupyterFrontEnd,
  tracker: INotebookTracker,
  bridge: Bridge,
  palette: ICommandPalette | null
): void {
  const active = (): Cell | null => {
    const cell = tracker.activeCell;
    return cell && isAgentCell(cell.model) ? cell : null;
  };
  const run = async (): Promise<void> => {
    if (!active()) {
      await commands.execute('notebook:insert-cell-below');
      tracker.activeCell?.model.sharedModel.setSource('%%agent\n');
      await commands.execute('notebook:enter-edit-mode');
      tracker.activeCell?.editor?.setCursorPosition({ line: 1, column: 0 });
      return;
    }
    await commands.execute('notebook:run-cell');
  };
  const stop = async (): Promise<void> => {
    const panel = tracker.currentWidget;
    if (panel && !(await bridge.stop('', panel.node))) {
      await panel.sessionContext.session?.kernel?.interrupt();
    }
  };
  const running = (): boolean => {
    const cell = active();
    return cell !== null && isRunning(cell);
  };

  commands.addCommand(RUN, {
    label: () => (active() ? 'Run the Agent in This Cell' : 'New Agent Cell'),
    caption: 'Run this %%agent cell, or start a new one below',
    isEnabled: () => tracker.currentWidget !== null,
    execute: run
  });
  commands.addCommand(STOP, {
    label: 'Stop the Agent',
    caption: 'Stop what the agent does in this notebook; its history is kept',
    isEnabled: () => tracker.currentWidget !== null,
    execute: stop
  });
  commands.addCommand(RUN_OR_STOP, {
    label: '',
    caption: () => (running() ? 'Stop the agent' : 'Run the agent'),
    icon: () => (running() ? stopIcon : runIcon),
    isVisible: () => active() !== null,
    execute: () => (running() ? stop() : run())
  });
  for (const command of [RUN, STOP]) {
    palette?.addItem({ command, category: CATEGORY });
  }
  keepButtonRight(tracker, () => { commands.notifyCommandChanged(RUN_OR_STOP); });
}

/** The cell runs, or a run that it started goes on in the background. */
function isRunning(cell: Cell): boolean {
  const state = (cell.model as Partial<ICodeCellModel>).executionState;
  return state === 'running' || cell.node.querySelector('.cu-live') !== null;
}

/** The button follows the active cell and the kernel: a run's end saves the notebook, which the kernel's status shows. */
function keepButtonRight(tracker: INotebookTracker, changed: () => void): void {
  tracker.activeCellChanged.connect(changed);
  const watch = (panel: NotebookPanel): void => {
    panel.sessionContext.statusChanged.connect(changed);
  };
  tracker.forEach(watch);
  tracker.widgetAdded.connect((_, panel) => { watch(panel); });
}
