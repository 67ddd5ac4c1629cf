import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Bridge } from './bridge';
import { addCommands } from './commands';
import { highlightAgentCells } from './highlight';
import { serveForms } from './keyboard';
import { loadMarkdown } from './markdown';
import { showEveryOutput } from './outputs';
import { rendererFactory } from './renderer';

const RANK = -20; // before text/html, and before the widgets of a bundle (-10), which our blocks hold

/** Pages without notebooks (Notebook 7's file list, a console) get the renderer alone. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: 'cumulus-jupyter:plugin',
  description: 'Draws agent blocks and serves the kernel the live notebook.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [INotebookTracker, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null
  ) => {
    const bridge = tracker && new Bridge(app, tracker, rendermime);
    const stop = (run: string, node: HTMLElement): Promise<boolean> =>
      bridge?.stop(run, node) ?? Promise.resolve(false);
    rendermime.addFactory(rendererFactory(rendermime, stop), RANK);
    serveForms();
    if (tracker && bridge) {
      addCommands(app, tracker, bridge, palette);
    }

    const open = async (panel: NotebookPanel): Promise<void> => {
      bridge?.watch(panel);
      await panel.context.ready;
      highlightAgentCells(panel, model => {
        showEveryOutput(panel, model);
        loadMarkdown(rendermime);
      });
    };
    tracker?.forEach(panel => void open(panel));
    tracker?.widgetAdded.connect((_, panel) => void open(panel));
  }
};

export default plugin;
