// The application of the end-to-end scenarios with the library for Node: see application.py.

import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { pid } from "node:process";
import { connect } from "../../../clients/typescript/index.js";

const PERIOD = 20; // ms

function timestamp() {
  const bytes = Buffer.alloc(16);
  bytes.writeBigInt64LE(process.hrtime.bigint()); // CLOCK_MONOTONIC
  bytes.writeBigInt64LE(BigInt(Date.now()) * 1_000_000n, 8);
  return bytes;
}

async function record(lease) {
  const header = JSON.stringify({
    key: lease.key, token: lease.token, session: process.env.SHARDCTL_SESSION,
    instance: process.env.SHARDCTL_INSTANCE, pid, period: PERIOD * 1_000_000,
  });
  const name = `${lease.key.replaceAll("/", "_")}-${lease.token}-${pid}.rec`;
  const file = openSync(join(process.env.RECORD_DIR, name), "a");
  if (fstatSync(file).size === 0) { // else it runs again under its token, after a pause
    writeSync(file, Buffer.concat([Buffer.from(`shardctl-record-1\n${header}\n`), timestamp()]));
  }
  while (!lease.cancelled) {
    await new Promise((resolve) => setTimeout(resolve, PERIOD));
    if (!lease.cancelled) {
      writeSync(file, timestamp());
    }
  }
  closeSync(file);
}

await connect().group("topics", record).run();
process.exit(0);
