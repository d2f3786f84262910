// The application of the conformance suite: it prints what begins and ends.

import { readFileSync, writeSync } from "node:fs";
import { connect, Done, LeaseLost, slot } from "./index.js";

const say = (...words) => writeSync(1, words.join(" ") + "\n"); // at once, also when the process exits
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const cancelled = (lease) =>
  new Promise((resolve) => lease.cancelled ? resolve() : lease.signal.addEventListener("abort", resolve));

if (process.argv[2]) {
  for (const v of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
    if (slot(v.key, v.slots) !== v.slot) {
      throw new Error(`${JSON.stringify(v)}: ${slot(v.key, v.slots)}`);
    }
  }
  say("slots agree");
  process.exit(0);
}

async function slow(lease) {
  say("begin", lease.key, lease.token);
  await cancelled(lease);
  say("stopping", lease.key, lease.token);
  await sleep(500);
  say("end", lease.key, lease.token);
}

const app = connect()
  .group("work", async (lease) => {
    say("begin", lease.key, lease.token);
    await cancelled(lease);
    say("end", lease.key, lease.token);
  })
  .group("slow", slow)
  .group("async", slow)
  .group("many", cancelled)
  .group("count", async (lease) => {
    while (!lease.cancelled) {
      await sleep(100);
      say("owned", app.owned().length);
    }
  })
  .group("stuck", async (lease) => {
    say("begin", lease.key, lease.token);
    await new Promise(() => {});
  })
  .group("busy", async (lease) => {
    say("begin", lease.key, lease.token);
    for (;;);
  })
  .group("values", async (lease) => {
    const before = (await lease.value())?.toString() ?? "";
    await lease.setValue(before + "é");
    say("begin", lease.key, lease.token, before || "-");
    await cancelled(lease);
    await lease.setValue(before + "é");
    say("end", lease.key, lease.token);
  })
  .group("lost", async (lease) => {
    await lease.setValue("late").catch((err) => say(err instanceof LeaseLost ? "lost" : err));
    await cancelled(lease);
  })
  .group("done", async (lease) => {
    say("begin", lease.key, lease.token);
    throw new Done();
  })
  .group("again", async (lease) => say("begin", lease.key, lease.token))
  .group("status", async (lease) => {
    try {
      app.setLoad(lease.key, "1.5");
      app.setLoad(lease.key, -1);
    } catch (err) {
      say(err.message);
    }
    app.setStatus({ version: "é 1", lag: 12 });
    await cancelled(lease);
    app.setStatus({ version: "é 2" });
  })
  .group("owner", async (lease) => {
    const { instance, address, token } = await app.owner(lease.key);
    say("owner", instance, address, token, (await app.owner("work/none")) ?? "-");
    await cancelled(lease);
  });

await app.run();
say("over");
process.exit(0);
