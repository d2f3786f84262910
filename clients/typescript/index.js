// Run the keys that this process owns, each in one process at a time. See index.d.ts and README.md.
//
// The replica gives a validity, which counts from the moment at which this process asked for it. At three quarters of it
// all signals abort. When it is over and work still goes on, the process exits with status 75.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";

const EXIT_STUCK = 75;
const WAIT = 1; // seconds that a call may wait for news
const TIMEOUT = 10_000; // ms of one call
const LOOK = 20; // ms between two looks at the clock

/** Seconds on a clock that goes on while the machine sleeps, where there is one: hundredths, of Linux. */
function bootTime() {
  return Number(readFileSync("/proc/uptime", "latin1").split(" ", 1)[0]);
}

let onLinux = true;
function now() {
  if (onLinux) {
    try {
      return bootTime();
    } catch {
      onLinux = false;
    }
  }
  return performance.now() / 1000;
}

export class Done extends Error {}

export class ReplicaError extends Error {
  constructor(status, detail) {
    super(status ? `${status}: ${detail}` : detail);
    this.status = status;
  }
}

export class LeaseLost extends ReplicaError {}

class Lease {
  #app;
  #abort = new AbortController();

  constructor(app, key, token) {
    this.#app = app;
    this.key = key;
    this.token = token;
    [this.group, this.name] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    this.signal = this.#abort.signal;
  }

  cancel() {
    this.#abort.abort();
  }

  valid() {
    return !this.signal.aborted && now() < this.#app.validTo;
  }

  deadline() {
    return Math.max(0, this.#app.validTo - now());
  }

  async value() {
    const body = await this.#app.request("GET", this.#path(), { token: this.token });
    return body.length ? body : null;
  }

  async setValue(value) {
    await this.#app.request("PUT", this.#path(), { token: this.token, body: value });
  }

  #path() {
    return `/v1/value/${encodeURIComponent(this.group)}/${encodeURIComponent(this.name)}`;
  }
}

/** Work on one lease: started again after a pause while it returns by itself. */
class Run {
  ended = false;

  constructor(lease, work, over) {
    this.lease = lease;
    this.whenEnded = this.#again(work).finally(() => {
      this.ended = true;
      over();
    });
  }

  async #again(work) {
    for (let ceiling = 1; !this.lease.signal.aborted; ceiling = Math.min(60, 2 * ceiling)) {
      try {
        await work(this.lease);
      } catch (err) {
        if (err instanceof Done) {
          return;
        }
        console.error(`shardctl: ${this.lease.key} failed:`, err);
      }
      await pause(1000 * ceiling * Math.random(), this.lease.signal);
    }
  }
}

/** Resolves after so many ms, or when the signal aborts. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    if (signal?.aborted) {
      resolve();
    }
  });
}

export function connect(address = process.env.SHARDCTL_APP, token = process.env.SHARDCTL_APP_TOKEN) {
  if (!address) {
    throw new ReplicaError(0, "no address: give one, or set SHARDCTL_APP");
  }
  return new Application(address, token);
}

class Application {
  validTo = 0;
  #cancelAt = 0;
  #address;
  #token;
  #id = randomUUID();
  #work = new Map();
  #runs = new Map();
  #load = {};
  #session = "";
  #seq = 0;
  #assigned = new Map();
  #listed = "";
  #listing = "";
  #ready = true;
  #changed = false;
  #calling = null;

  constructor(address, token) {
    this.#address = address;
    this.#token = token;
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
    const look = setInterval(() => this.#check(), LOOK);
    try {
      for (let failures = 0; ; ) {
        const sent = now();
        try {
          const reply = await this.#call(this.#body());
          failures = 0;
          if (await this.#obey(reply, sent)) {
            return;
          }
        } catch (err) {
          if (!(err instanceof ReplicaError)) {
            throw err;
          }
          if (this.#changed) {
            continue; // the call was given up for news
          }
          failures++;
          if ([1, 10, 100].includes(failures)) {
            console.error(`shardctl: the replica at ${this.#address} does not answer: ${err.message}`);
          }
          await pause(Math.min(1000, 50 * 2 ** failures) * Math.random());
        }
      }
    } finally {
      clearInterval(look);
    }
  }

  drain() {
    this.#ready = false;
    this.#news();
  }

  owned() {
    return [...this.#runs.keys()].sort();
  }

  async owner(key) {
    const [group, name] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    try {
      const path = `/v1/owner/${encodeURIComponent(group)}/${encodeURIComponent(name)}`;
      const owner = JSON.parse((await this.request("GET", path)).toString());
      return { instance: owner.instance, address: owner.address, token: BigInt(owner.token) };
    } catch (err) {
      if (err.status === 404) {
        return null;
      }
      throw err;
    }
  }

  setLoad(key, load) {
    this.#load[key] = load;
  }

  // What follows is the protocol. Calls are one after the other.

  #body() {
    this.#changed = false;
    for (const [key, run] of this.#runs) {
      if (run.ended && run.lease.signal.aborted) {
        this.#runs.delete(key);
      }
    }
    const running = [...this.#runs].map(([key, run]) => ({ key, token: Number(run.lease.token) }));
    const listing = JSON.stringify(running);
    const body = {
      app: this.#id, session: this.#session, seq: this.#seq, wait: WAIT, ready: this.#ready, load: this.#load,
    };
    if (this.#listed && listing === this.#listing) {
      return { ...body, same: this.#listed };
    }
    this.#listing = listing;
    return { ...body, running };
  }

  async #call(body) {
    this.#calling = new AbortController();
    try {
      const options = { body: JSON.stringify(body), signal: this.#calling.signal };
      return JSON.parse((await this.request("POST", "/v1/sync", options)).toString());
    } finally {
      this.#calling = null;
    }
  }

  /** Have what changed here be said at once: the call that waits is given up, and its reply not acted on. */
  #news() {
    this.#changed = true;
    this.#calling?.abort();
  }

  /** Act on the reply to the newest call. It resolves to whether all is over. */
  async #obey(reply, sent) {
    this.#check();
    if (reply.session !== this.#session) {
      await this.#stopAll();
      this.validTo = this.#cancelAt = 0;
      [this.#session, this.#listed] = [reply.session, ""];
      this.#assigned.clear();
    }
    [this.#seq, this.#listed] = [reply.seq, reply.listed];
    if (sent + reply.validFor > this.validTo) {
      this.validTo = sent + reply.validFor;
      this.#cancelAt = sent + 0.75 * reply.validFor;
    }
    if (reply.assigned) {
      this.#assigned = new Map(reply.assigned.map((a) => [a.key, BigInt(a.token)]));
    }
    for (const [key, run] of this.#runs) {
      if (this.#assigned.get(key) !== run.lease.token) {
        run.lease.cancel();
      }
    }
    for (const [key, token] of this.#assigned) {
      const work = this.#work.get(key.slice(0, key.indexOf("/")));
      if (work && !this.#runs.has(key) && now() < this.#cancelAt) {
        this.#runs.set(key, new Run(new Lease(this, key, token), work, () => this.#news()));
      }
    }
    return !this.#ready && this.#runs.size === 0 && this.#assigned.size === 0;
  }

  /** Cancel what runs and wait until it has ended. The looks at the clock go on meanwhile. */
  async #stopAll() {
    for (const run of this.#runs.values()) {
      run.lease.cancel();
    }
    await Promise.all([...this.#runs.values()].map((run) => run.whenEnded));
    this.#runs.clear();
  }

  /** Cancel and end what the validity no longer covers. */
  #check() {
    const left = [...this.#runs.values()].filter((run) => !run.ended);
    if (left.length > 0 && now() >= this.validTo) {
      console.error(`shardctl: ${left.length} functions outlived their lease: exiting`);
      process.exit(EXIT_STUCK);
    }
    if (now() >= this.#cancelAt) {
      left.forEach((run) => run.lease.cancel());
    }
  }

  /** One request; resolves to the body. */
  request(method, path, { body, token, signal } = {}) {
    const headers = {};
    if (this.#token) {
      headers.authorization = `Bearer ${this.#token}`;
    }
    if (token !== undefined) {
      headers["shardctl-fencing-token"] = String(token);
    }
    const socket = this.#address.startsWith("unix:");
    const to = socket ? { socketPath: this.#address.slice(5) } : hostOf(this.#address);
    return new Promise((resolve, reject) => {
      const failed = (err) => reject(new ReplicaError(0, `${this.#address}: ${err.message}`));
      const request = http.request({ ...to, method, path, headers, signal, timeout: TIMEOUT }, (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("error", failed);
        response.on("end", () => {
          const text = Buffer.concat(parts);
          if (response.statusCode < 300) {
            resolve(text);
            return;
          }
          const Refused = response.statusCode === 409 && path.startsWith("/v1/value/") ? LeaseLost : ReplicaError;
          reject(new Refused(response.statusCode, detailOf(text) ?? response.statusMessage));
        });
      });
      request.on("timeout", () => request.destroy(new Error("no answer in time")));
      request.on("error", failed);
      request.end(body);
    });
  }
}

function hostOf(address) {
  const url = new URL(address.startsWith("http://") ? address : `http://${address}`);
  return { hostname: url.hostname, port: url.port };
}

function detailOf(text) {
  try {
    return JSON.parse(text.toString()).detail;
  } catch {
    return undefined;
  }
}
