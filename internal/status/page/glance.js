// The row of numbers at the top: how the cluster is, at a glance. Each leads to what it counts.
function tile(link, number, name, note, cls) {
  return el("li", null, el("a", { href: link, class: "tile " + (cls || "") }, el("b", null, number.toLocaleString()), el("span", null, name), el("small", null, note || "\u00a0")));
}
function counted(pairs) { return pairs.filter(([n]) => n).map(([n, word]) => n + " " + word).join(", "); }

function glanceTiles() {
  const groups = status.groups, sum = (state) => groups.reduce((n, g) => n + g[state], 0);
  const shown = instances.filter((i) => i.state !== "left"), live = shown.filter((i) => i.state === "live").length;
  const capped = groups.filter((g) => g.headroom !== null), head = capped.length ? Math.min(...capped.map((g) => g.headroom)) : null;
  byOwner();
  const wrong = loaded ? owners.trouble : 0, moves = changesOfOwner(events);
  return [
    tile(href({ state: "running" }), sum("running"), "running", counted([[sum("waiting"), "waiting for a tick"], [sum("starting") + sum("stopping"), "in between"]]) || "of " + plural(sum("tasks"), "task"), "ok"),
    tile(href({ state: ANYTHING }), loaded ? wrong : "…", wrong === 1 ? "task needs attention" : "tasks need attention", counted([[sum("unassigned"), "unassigned"], [sum("backoff"), "in backoff"], [sum("failed"), "failed"]]) || (wrong ? "their last run failed" : "none"), wrong ? "trouble" : ""),
    tile("#hi", instances.length ? live : "…", "live instances", counted([[shown.filter((i) => i.state === "draining").length, "draining"], [shown.filter((i) => i.state === "dead").length, "dead"]]) || (live ? "none draining or dead" : ""), live < shown.length ? "warn" : "ok"),
    tile("#hg", head === null ? "∞" : head, "headroom", head === null ? "no group has a cap" : head < 0 ? "missing if the largest instance is lost" : "left if the largest instance is lost", head !== null && head < 0 ? "trouble" : ""),
    tile("#hl", eventsKnown ? moves.length : "…", moves.length === 1 ? "change of owner" : "changes of owner", moves.length ? "the last " + ago(moves[0].time) + " ago" : "in the last hour"),
  ];
}
function drawGlance() {
  if (!status) return;
  const e = byId("glance"), tiles = glanceTiles();
  fill(e, tiles.map((t) => t.textContent + t.firstElementChild.className), () => tiles);
}
