// The replica, as requests reach it.

import { lstatSync } from "node:fs";
import http from "node:http";
import { urlToHttpOptions } from "node:url";

export class ReplicaError extends Error {
  constructor(status, detail) {
    super(status ? `${status}: ${detail}` : detail);
    this.status = status;
  }
}

export class LeaseLost extends ReplicaError {}

export class Replica {
  #to; // what http.request takes the address as
  #token;

  constructor(address, token) {
    this.address = address;
    const socket = address.startsWith("unix:");
    this.#to = socket ? { socketPath: address.slice(5) } : urlToHttpOptions(new URL(`http://${address}`));
    this.#token = (token ?? "").trim(); // as of a file, which ends its line
  }

  /** One request over a connection of its own; resolves to the body. */
  request(method, path, { body, token = 0, timeout = 10_000, started } = {}) {
    const headers = { authorization: `Bearer ${this.#token}`, "shardctl-fencing-token": token };
    return new Promise((resolve, reject) => {
      const failed = (err) => reject(new ReplicaError(0, `${this.address}: ${err.message}`));
      try {
        checkOwner(this.#to.socketPath);
      } catch (err) {
        return failed(err);
      }
      const request = http.request({ ...this.#to, method, path, headers, timeout, agent: false }, (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part)).on("error", failed).on("end", () => {
          const text = Buffer.concat(parts);
          if (response.statusCode < 300) {
            return resolve(text);
          }
          const Refused = response.statusCode === 409 && token ? LeaseLost : ReplicaError;
          reject(new Refused(response.statusCode, detailOf(text) ?? response.statusMessage));
        });
      });
      const giveUp = (err) => {
        failed(err); // first: a response that is cut off may say nothing more
        request.destroy();
      };
      request.on("timeout", () => giveUp(new Error("no answer in time"))).on("error", failed).end(body);
      started?.(giveUp);
    });
  }
}

/** Refuses a socket of another user: in a directory that others may write to, anybody can listen first. */
function checkOwner(socketPath) {
  const user = process.geteuid?.();
  if (!socketPath || user === undefined) {
    return;
  }
  const { uid } = lstatSync(socketPath);
  if (uid !== user && uid !== 0) {
    throw new Error(`the socket is user ${uid}'s: must be of user ${user}, as this process, or root`);
  }
}

function detailOf(text) {
  try {
    return JSON.parse(text).detail;
  } catch {
    return undefined;
  }
}
