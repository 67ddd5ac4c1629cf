/** The two contracts with the Python side: what an output bundle holds, and what goes over the comm. */

export const MIME = 'application/vnd.cumulus.agent+json';
export const BUNDLE_VERSION = 1;
export const TARGET = 'cumulus.notebook';
export const PROTOCOL = 1;

// ---- output bundles: one block is one display ----

interface Base {
  v: number;
  session: string;
  run: string;
  block: string;
  state: 'open' | 'closed';
}

export interface TextBlock extends Base {
  kind: 'text';
  markdown: string;
  /** `note`: said by the harness or on the way, set smaller than an answer. */
  tone?: 'note';
}

export type ToolStatus = 'running' | 'waiting' | 'ok' | 'error' | 'denied' | 'stopped';

export interface ToolBlock extends Base {
  kind: 'tool';
  name: string;
  verb: string;
  object: string;
  object_kind: 'code' | 'text';
  status: ToolStatus;
  /** Duration when finished, in seconds. */
  seconds: number | null;
  /** Epoch milliseconds of the start; while it runs the clock ticks from here. */
  started?: number;
  aside: string;
  arguments: string;
  result: string;
  note?: string;
  /** `data:` addresses of the pictures in the result. */
  pictures?: string[];
  /** Characters that the model saw, and how many there were. */
  window?: { shown: number; total: number };
  /** The last lines of live output. */
  tail?: string;
}

export interface TodosBlock extends Base {
  kind: 'todos';
  items: { label: string; status: 'pending' | 'in_progress' | 'completed' }[];
}

/** A model's questions, or the approval of a call. */
export interface QuestionBlock extends Base {
  kind: 'question';
  questions: { question: string; header: string; options: { label: string; description?: string }[] }[];
  /** What is to be approved: a command, a diff. */
  detail?: string;
  outcome: 'open' | 'answered' | 'declined' | 'timed_out' | 'no_user' | 'closed';
  /** What was answered, or said instead of an answer. */
  answers: { header: string; answer: string }[];
}

/** A node of a panel. It comes from a model, or from a file: no field is sure to be there. */
export interface PanelNode {
  component: string;
  [field: string]: unknown;
}

export interface PanelBlock extends Base {
  kind: 'panel';
  ui_id: string;
  summary: string;
  root: PanelNode[];
}

/** A sub-agent: what it was given, how it stands, what it does and what came of it. */
export interface AgentBlock extends Base {
  kind: 'agent';
  name: string;
  task: string;
  word: 'submitted' | 'running' | 'completed' | 'failed' | 'cancelled' | 'rejected';
  status: ToolStatus;
  rounds: number;
  /** Duration when finished, in seconds. */
  seconds: number | null;
  /** Epoch milliseconds of the start. */
  started: number;
  activity: string;
  steps: { status: ToolStatus; text: string }[];
  /** Steps before those. */
  earlier: number;
  text: string;
  error: string;
}

export type RunStatus =
  | 'running'
  | 'waiting'
  | 'done'
  | 'needs_input'
  | 'stopped'
  | 'turn_limit'
  | 'truncated'
  | 'refused'
  | 'failed';

export interface Usage {
  rounds: number;
  /** Tokens. */
  input: number;
  cached: number;
  output: number;
  seconds: number;
  /** US dollars, or null where the price is unknown. */
  cost: number | null;
}

export interface StatusBlock extends Base {
  kind: 'status';
  role: 'head' | 'foot';
  status: RunStatus;
  model: string;
  host: string;
  message: string;
  usage: Usage | null;
  /** Epoch milliseconds of the start of the run. */
  started: number;
  next?: string;
  notice?: string;
  activity?: string;
  /** Epoch milliseconds of the next attempt, or of the end of an open question. */
  until?: number | null;
  stoppable: boolean;
}

export type Block = TextBlock | ToolBlock | TodosBlock | QuestionBlock | PanelBlock | AgentBlock | StatusBlock;

/** The block in a bundle's data, or null when this front end is too old for it. */
export function asBlock(data: unknown): Block | null {
  const block = data as Partial<Block> | null | undefined;
  return block?.v === BUNDLE_VERSION && typeof block.kind === 'string' ? (visible(data) as Block) : null;
}

/** Terminal escapes, control characters, and the marks that reorder what a reader sees. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The same value with texts that look like what they are. */
function visible(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.replace(CONTROLS, '');
  }
  if (Array.isArray(value)) {
    return value.map(visible);
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, visible(item)]));
  }
  return value;
}

// ---- comm messages ----

export interface Request {
  id: string;
  op: string;
  /** Only the page whose kernel client has this id acts; absent: every page answers. */
  client?: string;
  [argument: string]: unknown;
}

export type Reply = { id: string; ok: true; [value: string]: unknown } | { id: string; ok: false; error: Fault };

export interface Fault {
  code: string;
  message: string;
}

/** A request that cannot be carried out; its code and message go back to the kernel. */
export class BridgeError extends Error {
  constructor(
    readonly code: string,
    message: string
  ) {
    super(message);
  }
}

export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
