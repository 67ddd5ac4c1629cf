/** Saving the notebook without JupyterLab's dialogs: they would wait for a click while the agent waits for the answer. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Place, Values } from './place';
import { BridgeError, reason } from './protocol';

type Context = DocumentRegistry.IContext<DocumentRegistry.IModel>;
type Saves = (check?: () => Promise<void>) => Promise<void>;
const queues = new WeakMap<Context, Saves>();

export async function save({ app, panel }: Place): Promise<Values> {
  const { context } = panel;
  try {
    await queue(context)(() => refuseConflict(app, context));
  } catch (error) {
    throw error instanceof BridgeError
      ? error
      : new BridgeError('save', `Could not save ${context.path}: ${reason(error)}`);
  }
  return { path: context.path };
}

/**
 * JupyterLab lets two saves of one document run at once, and then each may take the other's file for a stranger's and
 * ask which to keep. So all saves of a notebook in which an agent works, a person's too, go one behind the other.
 */
function queue(context: Context): Saves {
  const made = queues.get(context);
  if (made) {
    return made;
  }
  const saveNow = context.save.bind(context);
  let last = Promise.resolve();
  const saves: Saves = check => {
    const now = async (): Promise<void> => {
      await check?.();
      await saveNow();
    };
    return (last = last.then(now, now));
  };
  queues.set(context, saves);
  context.save = () => saves();
  return saves;
}

/** Look first, with the comparison that makes JupyterLab ask. Under real-time collaboration the server saves. */
async function refuseConflict(app: JupyterFrontEnd, context: Context): Promise<void> {
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
