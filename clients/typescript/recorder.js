// The application of the conformance suite: it prints what begins and ends.

import { connect, Done } from "./index.js";

const say = (...words) => console.log(...words);
const cancelled = (lease) => new Promise((resolve) => {
  if (lease.signal.aborted) {
    resolve();
  }
  lease.signal.addEventListener("abort", resolve, { once: true });
});

async function work(lease) {
  say("begin", lease.key, String(lease.token));
  await cancelled(lease);
  say("end", lease.key, String(lease.token));
}

const app = connect()
  .group("work", work)
  .group("coroutines", work)
  .group("slow", async (lease) => {
    say("begin", lease.key, String(lease.token));
    await cancelled(lease);
    await new Promise((resolve) => setTimeout(resolve, 500));
    say("end", lease.key, String(lease.token));
  })
  .group("stuck", async (lease) => {
    say("begin", lease.key, String(lease.token));
    await new Promise(() => {});
  })
  .group("values", async (lease) => {
    const before = (await lease.value())?.toString() ?? "";
    await lease.setValue(before + "x");
    say("begin", lease.key, String(lease.token), before || "-");
    await cancelled(lease);
    say("end", lease.key, String(lease.token));
  })
  .group("done", async (lease) => {
    say("begin", lease.key, String(lease.token));
    throw new Done();
  });

await app.run();
say("over");
process.exit(0);
