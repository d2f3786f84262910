// See index.d.ts and README.md. The replica gives a validity, which counts from when this process asked for it. All
// signals abort a quarter before its end. When it is over and work still goes on, the process exits with status 75; a
// thread beside the event loop kills it when the loop is blocked.

import { randomUUID } from "node:crypto";
import { openSync, readSync } from "node:fs";
import { setTimeout as setTimeoutPromise } from "node:timers/promises";
import { Worker } from "node:worker_threads";

import { LeaseLost, Replica, ReplicaError } from "./replica.js";

export { LeaseLost, ReplicaError };

const EXIT_STUCK = 75;
const WAIT = 1; // seconds that a call may wait for news
const TICK = 0.01; // seconds: what the clock of Linux below counts in

/** A clock in seconds that goes on while the machine sleeps, where there is one. */
function clock(openSync, readSync) {
  try {
    const [file, text] = [openSync("/proc/uptime"), Buffer.alloc(64)];
    return () => parseFloat(text.latin1Slice(0, readSync(file, text, 0, 64, 0)));
  } catch {
    return () => Number(process.hrtime.bigint()) / 1e9;
  }
}

/** How many ms may pass until the next look at a clock where something comes due. */
function soon(due, now) {
  return due > now ? Math.min(100, 1 + 1000 * (due - now)) : 100;
}

const now = clock(openSync, readSync);

/** What a thread does, since the event loop may be blocked: it kills the process at its deadline. */
const WATCHDOG = `
const { openSync, readSync } = require("node:fs");
const now = (${clock})(openSync, readSync);
const deadline = new Float64Array(require("node:worker_threads").workerData);
(function look(late) {
  if (late && now() >= deadline[0]) process.kill(process.pid, "SIGKILL");
  setTimeout(look, now() >= deadline[0] ? 20 : (${soon})(deadline[0], now()), now() >= deadline[0]);
})(false);`;

export function slot(key, slots) {
  if (!(slots >= 1)) {
    throw new RangeError(`slots ${slots}: must be at least 1`);
  }
  let h = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(key)) {
    h = BigInt.asUintN(64, (h ^ BigInt(byte)) * 0x100000001b3n);
  }
  for (const factor of [0xff51afd7ed558ccdn, 0xc4ceb9fe1a85ec53n]) {
    h = BigInt.asUintN(64, (h ^ (h >> 33n)) * factor);
  }
  return Number((h ^ (h >> 33n)) % BigInt(slots));
}

export class Done extends Error {}

class Lease {
  #app;

  constructor(app, key, token, signal) {
    this.#app = app;
    Object.assign(this, { key, token, signal });
    [this.group, this.name] = split(key);
  }

  get cancelled() {
    return this.signal.aborted;
  }

  valid() {
    return !this.cancelled && this.deadline() > 0;
  }

  deadline() {
    return Math.max(0, this.#app.validTo - now());
  }

  async value() {
    const body = await this.#app.request("GET", pathOf("value", this.key), { token: this.token });
    return body.length ? body : null;
  }

  async setValue(body) {
    await this.#app.request("PUT", pathOf("value", this.key), { token: this.token, body });
  }
}

/** Work on one lease: started again after a pause while it returns by itself. */
class Run {
  ended = false;
  #abort = new AbortController();

  constructor(app, key, token, work, over) {
    this.lease = new Lease(app, key, token, this.#abort.signal);
    this.#again(work).finally(() => {
      this.ended = true;
      over();
    });
  }

  cancel() {
    this.#abort.abort();
  }

  async #again(work) {
    for (let ceiling = 1; !this.lease.cancelled; ceiling = Math.min(60, 2 * ceiling)) {
      const began = now();
      try {
        await work(this.lease);
      } catch (err) {
        if (err instanceof Done) {
          return;
        }
        console.error(`shardctl: ${this.lease.key} failed:`, err);
      }
      ceiling = now() - began > 60 ? 1 : ceiling;
      await pause(1000 * ceiling * Math.random(), this.lease.signal);
    }
  }
}

/** Resolves after so many ms, or when the signal aborts. */
const pause = (ms, signal) => setTimeoutPromise(ms, undefined, { signal }).catch(() => {});

function split(key) {
  const at = key.indexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
}

function pathOf(what, key) {
  return `/v1/${what}/${split(key).map(encodeURIComponent).join("/")}`;
}

export function connect(address = process.env.SHARDCTL_APP, token = process.env.SHARDCTL_APP_TOKEN) {
  if (!address) {
    throw new ReplicaError(0, "no address: give unix:PATH or HOST:PORT, or set SHARDCTL_APP");
  }
  return new Application(address, token);
}

class Application {
  validTo = 0;
  #cancelAt = 0;
  #longest = 0; // seconds that a reply of this session was valid for
  #timeout = 10_000; // ms of one call
  #replica;
  #id = randomUUID();
  #work = new Map();
  #runs = new Map();
  #live = 0; // runs that have not ended
  #deadline = new Float64Array(new SharedArrayBuffer(8)); // of the watchdog
  #load = {};
  #status = {};
  #session = "";
  #seq = 0;
  #listed = ""; // what the replica calls the list of runs; empty: it is not known to have it
  #due = new Map(); // what is assigned and has not begun
  #ready = true;
  #changed = false; // since the last call was made
  #over = false;
  #giveUp = null; // the call that waits for news

  constructor(address, token) {
    this.#replica = new Replica(address, token);
  }

  group(name, work) {
    this.#work.set(name, work);
    return this;
  }

  async run() {
    for (const signal of ["SIGTERM", "SIGINT"]) {
      process.on(signal, () => this.drain());
    }
    await this.start();
  }

  async start() {
    if (this.#work.size === 0) {
      throw new ReplicaError(0, "no group: declare a function by app.group(NAME, FUNCTION)");
    }
    this.#deadline[0] = Infinity;
    new Worker(WATCHDOG, { eval: true, workerData: this.#deadline.buffer }).unref();
    this.#look();
    for (let failures = 0; !this.#over; ) {
      const sent = now();
      try {
        const reply = await this.#call(this.#body());
        failures = 0;
        this.#obey(reply, sent);
      } catch (err) {
        if (this.#changed) {
          continue; // the call was given up for news
        }
        this.#over = !this.#ready && this.#live === 0; // nothing runs, so nothing has to be handed over
        failures++;
        if ([1, 10, 100].includes(failures)) {
          console.error(`shardctl: the replica at ${this.#replica.address} does not answer: ${err.message}`);
        }
        await pause(Math.min(1000, 50 * 2 ** failures) * Math.random());
      }
    }
  }

  /** Look at the clock when something comes due, however long calls take. */
  #look() {
    this.#check();
    if (!this.#over) {
      const due = now() < this.#cancelAt ? this.#cancelAt : this.validTo;
      setTimeout(() => this.#look(), soon(due, now()));
    }
  }

  drain() {
    this.#ready = false;
    this.#news();
  }

  owned() {
    return [...this.#runs].filter(([, run]) => !run.ended).map(([key]) => key).sort();
  }

  async owner(key) {
    try {
      const { instance, address, token } = JSON.parse(await this.request("GET", pathOf("owner", key)));
      return { instance, address, token };
    } catch (err) {
      if (err.status === 404) {
        return null;
      }
      throw err;
    }
  }

  setLoad(key, load) {
    if (!(load >= 0 && load <= 1e15)) {
      throw new RangeError(`load ${load}: must be from 0 to 1e15`);
    }
    this.#load[key] = Number(load); // of a text or a BigInt, too: the replica takes none
  }

  setStatus(status) {
    this.#status = Object.fromEntries(Object.entries(status).map(([name, value]) => [name, String(value)]));
  }

  // What follows is the protocol. Calls are one after the other.

  /** The next call. While nothing changes it takes no longer with more keys. */
  #body() {
    if (this.#changed) {
      this.#changed = false;
      this.#listed = "";
      this.#runs = new Map([...this.#runs].filter(([, run]) => !(run.ended && run.lease.cancelled)));
    }
    const load = Object.fromEntries(Object.entries(this.#load).filter(([key]) => this.#runs.has(key)));
    const state = { ready: this.#ready, load, status: this.#status };
    const body = { app: this.#id, session: this.#session, seq: this.#seq, ...state };
    if (this.#listed) {
      return { ...body, same: this.#listed, wait: WAIT };
    }
    return { ...body, running: [...this.#runs].map(([key, run]) => ({ key, token: run.lease.token })), wait: 0 };
  }

  async #call(body) {
    const started = (giveUp) => (this.#giveUp = body.wait ? giveUp : null);
    const options = { body: JSON.stringify(body), timeout: this.#timeout, started };
    return JSON.parse(await this.request("POST", "/v1/sync", options));
  }

  /** Have what changed here be said at once: a call that waits is given up, and its reply not acted on. */
  #news() {
    this.#changed = true;
    this.#giveUp?.(new Error("there is news to send"));
  }

  /** Act on the reply to the newest call. */
  #obey(reply, sent) {
    if (!(reply.validFor >= 0)) {
      throw new ReplicaError(0, "its answer is no reply");
    }
    this.#check();
    if (reply.session !== this.#session) {
      this.#runs.forEach((run) => this.#cancel(run));
      if (this.#live > 0) {
        throw new ReplicaError(0, "its session is new, and something of the one before still runs");
      }
      this.#runs.clear();
      this.#due.clear();
      this.validTo = this.#longest = 0;
      reply.listed = "";
    } else if (reply.seq < this.#seq) {
      throw new ReplicaError(0, "it repeated an older reply");
    }
    [this.#session, this.#seq, this.#listed] = [reply.session, reply.seq, reply.listed];
    this.#timeout = 1000 * (WAIT + Math.max(0.5, reply.validFor / 4));
    this.#longest = Math.max(this.#longest, reply.validFor);
    this.validTo = Math.max(this.validTo, sent + reply.validFor - TICK);
    this.#cancelAt = this.validTo - this.#longest / 4;
    if (reply.assigned) {
      this.#due = new Map(reply.assigned.map((a) => [a.key, a.token]));
      for (const [key, run] of this.#runs) {
        if (this.#due.get(key) !== run.lease.token) {
          this.#cancel(run);
        }
        this.#due.delete(key);
      }
    }
    for (const [key, token] of this.#due) {
      if (now() >= this.validTo - this.#longest / 2) {
        break; // it would be cancelled soon
      }
      this.#due.delete(key);
      const work = this.#work.get(split(key)[0]);
      if (work) {
        this.#live++;
        this.#listed = "";
        this.#deadline[0] = this.validTo;
        this.#runs.set(key, new Run(this, key, token, work, () => this.#ended()));
      }
    }
    this.#deadline[0] = this.#live ? this.validTo : Infinity;
    this.#over = !this.#ready && this.#runs.size === 0 && this.#due.size === 0;
  }

  #ended() {
    this.#live--;
    this.#deadline[0] = this.#live ? this.validTo : Infinity;
    this.#news();
  }

  /** Cancel what the validity no longer covers, and end the process when something outlives it. */
  #check() {
    const at = now();
    if (this.#live > 0 && at >= this.validTo) {
      console.error(`shardctl: ${this.#live} functions outlived their lease: exiting`);
      process.exit(EXIT_STUCK);
    }
    if (this.#live > 0 && at >= this.#cancelAt) {
      this.#runs.forEach((run) => run.ended || this.#cancel(run)); // what is done stays so
    }
  }

  #cancel(run) {
    this.#changed ||= run.ended && !run.lease.cancelled;
    run.cancel();
  }

  request(method, path, options) {
    return this.#replica.request(method, path, options);
  }
}
