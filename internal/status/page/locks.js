// Locks of programs and people. A replica reads them from the store for who asks, so they are asked for while the part
// is open, and no more than the first of them.
const LOCKS = 100, NAMES = 5;
let locks = null, moreLocks = false, staleLocks = false, locksError = "", lockPolling = 0;

async function pollLocks() {
  clearTimeout(lockPolling);
  if (!byId("locks").open || document.hidden || want.task) return;
  lockPolling = setTimeout(pollLocks, POLL);
  const words = byId("locks-q").value, q = words && "&q=" + encodeURIComponent(words);
  try {
    const list = await ask("api/v1/locks?kind=mutex,rwlock,semaphore&limit=" + LOCKS + q);
    if (byId("locks-q").value !== words) return; // a later answer is on its way
    locks = list.items; moreLocks = list.continue !== ""; staleLocks = list.stale; locksError = "";
    for (const l of locks) for (const h of l.holders) if (h.instance) labelOf(h.instance);
  } catch (e) { locksError = e.message; }
  draw();
}

// heldWords is how much of a lock is held.
function heldWords(l) {
  if (l.limit > 1) return l.holders.length + " of " + l.limit;
  if (l.limit === 1 || !l.holders.length) return l.holders.length ? "held" : "free";
  return l.holders[0].shared ? plural(l.holders.length, "reader") : "1 writer";
}
function holderItem(h) {
  return el("div", null, ...named(h.instance || h.session), " ", el("span", "soft", "token " + h.fencingToken + (h.heldSince ? ", for " + ago(h.heldSince) : "")));
}
function lockItem(l) {
  const queue = l.queue.slice(0, NAMES).map((w) => (w.instance || w.session) + (w.shared ? " (reads)" : ""));
  if (l.waiting > queue.length) queue.push((l.waiting - queue.length) + " more");
  return el("li", null, el("span", "of", l.key), el("strong", null, l.kind), el("span", null, heldWords(l)),
    el("div", "holders", l.holders.slice(0, NAMES).map(holderItem), l.holders.length > NAMES ? el("div", "soft", "and " + (l.holders.length - NAMES) + " more") : null),
    el("span", "soft", [l.waiting ? l.waiting + " waiting: " + queue.join(", ") : "", l.keptUntil ? "kept until " + when(l.keptUntil) : ""].filter(Boolean).join(". ")));
}
function drawLocks() {
  if (!byId("locks").open) return;
  put(byId("locks-found"), locksError || (locks ? (moreLocks ? "the first " : "") + plural(locks.length, "lock") + (staleLocks ? ", out of date" : "") : "loading …"));
  if (!locks) return;
  fill(byId("locks-list"), [locks, locks.some((l) => l.holders.length) && Math.floor(Date.now() / 10e3)], () => locks.length ? locks.map(lockItem) :
    [el("li", "empty", "No mutex, semaphore or read-write lock is held, waited for or kept.")]);
}
function initLocks() {
  byId("locks").addEventListener("toggle", () => { draw(); pollLocks(); });
  byId("locks-q").addEventListener("input", () => { clearTimeout(lockPolling); lockPolling = setTimeout(pollLocks, 300); });
  byId("locks-form").addEventListener("submit", (e) => e.preventDefault());
}
