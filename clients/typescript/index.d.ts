/** The hold on one key. */
export interface Lease {
  /** GROUP/NAME. */
  readonly key: string;
  readonly group: string;
  readonly name: string;
  /** The fencing token: let what the work writes to refuse a smaller one than it has seen. */
  readonly token: number;
  /** Aborts when the function has to return. */
  readonly signal: AbortSignal;
  /** Whether the function has to return. */
  readonly cancelled: boolean;
  /** Whether the work may go on now. It was true a moment ago: send the token along as well. */
  valid(): boolean;
  /** Seconds until the work must have ended. It grows again while the replica renews its lease. */
  deadline(): number;
  /** What was kept with the key last; null when nothing was. Rejects with LeaseLost. */
  value(): Promise<Buffer | null>;
  /** Keep a value of at most 64 KiB with the key, for its next owner. Rejects with LeaseLost. */
  setValue(value: Uint8Array | string): Promise<void>;
}

export interface Owner {
  instance: string;
  address: string;
  token: number;
}

/** Done for one key. It returns soon after lease.signal aborts; only then may another process run the key. */
export type Work = (lease: Lease) => Promise<void>;

/** This process as its replica knows it. */
export interface Application {
  /** Have the function run for each key of the group that this process may run. Declare it before run. */
  group(name: string, work: Work): this;
  /** Run keys until SIGTERM or SIGINT; resolves when all have been handed over. */
  run(): Promise<void>;
  /** Run keys until drain; resolves when all have been handed over. */
  start(): Promise<void>;
  /** Take no more keys, and end once the replica has taken those that run. */
  drain(): void;
  /** The keys that run here, in order. */
  owned(): string[];
  /** Who owns GROUP/NAME, as far as the replica knows; null: it has none now. */
  owner(key: string): Promise<Owner | null>;
  /** Say how much work a key is, in any unit, for a group with weightFrom: reported. */
  setLoad(key: string, load: number): void;
  /** Show people these names and values with the instance, instead of those before. 16 of 256 bytes are kept. */
  setStatus(status: Record<string, string | number | boolean>): void;
}

/** Thrown by work that is done: it is not started again under this lease. */
export class Done extends Error {}

/** The replica refused a request, or was not reached: status 0. */
export class ReplicaError extends Error {
  readonly status: number;
}

/** The key is another's, or no longer this process's under that token. */
export class LeaseLost extends ReplicaError {}

/** The slot of a key in a group with so many: the same number in every language. */
export function slot(key: string, slots: number): number;

/** The application of the replica at unix:PATH or HOST:PORT: $SHARDCTL_APP, with the token $SHARDCTL_APP_TOKEN. */
export function connect(address?: string, token?: string): Application;
