/** The comm `cumulus.notebook`: the kernel opens it and asks; a click on Stop asks the other way. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { OPERATIONS } from './notebook';
import { BridgeError, PROTOCOL, TARGET, reason, type Fault, type Reply, type Request } from './protocol';

type Connection = Kernel.IKernelConnection;
type JSONObject = Extract<Parameters<Kernel.IComm['send']>[0], object>;

/** What a kernel says of itself when it opens the comm. */
interface Opening {
  protocol: number;
  version: string;
}

const SUBSHELL_WAIT = 1000;
const STOP_WAIT = 5000;

export class Bridge {
  private readonly comms = new WeakMap<Connection, Kernel.IComm[]>();
  private readonly waiting = new Map<string, (ok: boolean) => void>();
  private sent = 0;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker,
    private readonly rendermime: IRenderMimeRegistry
  ) {}

  /** Answer the kernels of a notebook, each new connection included. */
  watch({ context, sessionContext }: NotebookPanel): void {
    const register = (): void => {
      const kernel = sessionContext.session?.kernel;
      if (kernel && !this.comms.has(kernel)) {
        this.comms.set(kernel, []);
        kernel.registerCommTarget(TARGET, (comm, message) => {
          this.opened(kernel, comm, message);
        });
      }
    };
    sessionContext.kernelChanged.connect(register);
    sessionContext.connectionStatusChanged.connect(register);
    register();
    context.pathChanged.connect((_, path) => void this.moved(sessionContext.session?.kernel, path));
  }

  /** Ask the kernel of the notebook around `node` to stop a run; false when it can't be reached. */
  async stop(run: string, node: HTMLElement): Promise<boolean> {
    const panel = this.tracker.find(each => each.node.contains(node));
    const kernel = panel?.sessionContext.session?.kernel;
    const comm = kernel && this.comms.get(kernel)?.findLast(each => !each.isDisposed);
    if (!comm) {
      return false;
    }
    this.sent += 1;
    const id = `f${this.sent}`;
    const answer = new Promise<boolean>(resolve => {
      this.waiting.set(id, resolve);
      window.setTimeout(resolve, STOP_WAIT, false);
    });
    await send(kernel, comm, { id, op: 'stop', run });
    return answer.finally(() => this.waiting.delete(id));
  }

  /** Tell the kernel the notebook's new path. */
  private async moved(kernel: Connection | null | undefined, path: string): Promise<void> {
    const comm = kernel && this.comms.get(kernel)?.findLast(each => !each.isDisposed);
    if (comm) {
      await send(kernel, comm, { id: 'moved', op: 'moved', path });
    }
  }

  private opened(kernel: Connection, comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): void {
    this.comms.get(kernel)?.push(comm);
    const { session } = message.parent_header as { session?: string };
    const theirs = message.content.data as Partial<Opening>;
    const mine = session === kernel.clientId;
    // A returned promise would hold up every message of the kernel: work goes on beside it.
    comm.onMsg = ({ content }) => {
      const request = content.data as Request;
      if (typeof request.op === 'string') {
        void this.answer(kernel, comm, request, { mine, theirs });
      } else {
        this.waiting.get(request.id)?.(request['ok'] === true);
      }
    };
    comm.onClose = () => {
      const open = this.comms.get(kernel) ?? [];
      this.comms.set(kernel, open.filter(each => each !== comm));
    };
  }

  private async answer(
    kernel: Connection,
    comm: Kernel.IComm,
    request: Request,
    { mine, theirs }: { mine: boolean; theirs: Partial<Opening> }
  ): Promise<void> {
    if (request.client !== undefined && request.client !== kernel.clientId) {
      return;
    }
    let reply: Reply;
    try {
      if (theirs.protocol !== PROTOCOL) {
        throw new BridgeError('protocol', mismatch(theirs));
      }
      const values = await this.perform(kernel, request, mine);
      reply = { ...values, id: request.id, ok: true };
    } catch (error) {
      reply = { id: request.id, ok: false, error: fault(error) };
    }
    await send(kernel, comm, reply);
  }

  private perform(kernel: Connection, request: Request, mine: boolean): object | Promise<object> {
    const panel = this.tracker.find(each => each.sessionContext.session?.kernel === kernel);
    if (!panel) {
      throw new BridgeError('closed', 'The notebook was closed in this page.');
    }
    if (!Object.hasOwn(OPERATIONS, request.op)) {
      throw new BridgeError('unknown_op', `This page knows no operation ${request.op}.`);
    }
    const { app, rendermime } = this;
    return OPERATIONS[request.op]?.({ app, rendermime, panel, client: kernel.clientId, mine }, request) ?? {};
  }
}

/** Until its subshell has started, what a comm sends waits behind the busy cell. */
async function send(kernel: Connection, comm: Kernel.IComm, data: object): Promise<void> {
  const { subshellStarted } = comm as { subshellStarted?: Promise<void> };
  if (kernel.supportsSubshells && (comm.commsOverSubshells as string | undefined) !== 'disabled') {
    const soon = new Promise<void>(resolve => window.setTimeout(resolve, SUBSHELL_WAIT));
    await Promise.race([subshellStarted, soon]).catch(() => undefined);
  }
  if (!comm.isDisposed && !kernel.isDisposed) {
    comm.send(data as JSONObject);
  }
}

function mismatch({ protocol, version }: Partial<Opening>): string {
  return (
    `The kernel's cumulus-jupyter ${version ?? ''} speaks notebook protocol ${protocol ?? '?'}, ` +
    `the extension in this page speaks ${PROTOCOL}. Update cumulus-jupyter where JupyterLab runs and where ` +
    'the kernel runs, restart the kernel and reload the page.'
  );
}

function fault(error: unknown): Fault {
  const code = error instanceof BridgeError ? error.code : 'failed';
  return { code, message: reason(error) };
}
