// The page of one task.
const about = { key: "", seen: "", runs: [], events: [], error: "", output: null, until: 0 };
const LATE = 15000; // ms after a change in which its last runs may still be written

// taskMoved says that something of the task that is shown has changed.
function taskMoved() { about.until = Date.now() + LATE; }

// refreshTask asks for the runs and the history of the task that is shown. Both are read from the store, so it asks when
// the task is opened, and for a while after it has changed.
async function refreshTask() {
  const key = want.task, t = tasks.get(key);
  if (!key || !t || about.seen === key && !about.error && Date.now() > about.until) return;
  if (about.key !== key) { Object.assign(about, { key, seen: "", runs: [], events: [], error: "", output: null }); taskMoved(); }
  const path = "api/v1/tasks/" + encodeURIComponent(t.group) + "/" + encodeURIComponent(t.name);
  try {
    const [runs, history] = await Promise.all([ask(path + "/runs"), ask("api/v1/events?limit=200&task=" + encodeURIComponent(key))]);
    if (about.key === key) Object.assign(about, { runs: runs.items, events: history.items, error: "", seen: key });
  } catch (e) { about.error = e.message; }
}
async function showOutput() {
  const key = want.task, t = tasks.get(key);
  if (!t) return;
  try {
    const r = await ask("api/v1/tasks/" + encodeURIComponent(t.group) + "/" + encodeURIComponent(t.name) + "/logs?tail=200", "text/plain, application/problem+json");
    const ended = r.headers.get("Shardctl-Log-Ended") ? "It does not run on " + r.headers.get("Shardctl-Log-Instance") + " any more. It wrote there:\n" : "";
    about.output = ended + (await r.text() || "It has written nothing.");
  } catch (e) {
    about.output = e.message + (e.message.startsWith("401") ? ". Output needs a token: give one at the top of the page." : "");
  }
  draw();
}

function took(r) { return r.startedAt && r.endedAt ? precise(Date.parse(r.endedAt) - Date.parse(r.startedAt)) : r.startedAt && r.result === "Running" ? ago(r.startedAt) : ""; }
const RESULTS = { Succeeded: "✓ ", Failed: "✕ ", TimedOut: "✕ ", Interrupted: "! ", Running: "▶ ", Skipped: "‖ " };
function runRows(r) {
  const bad = r.result === "Failed" || r.result === "TimedOut";
  const cells = [r.scheduledAt ? moment(r.scheduledAt) : "", moment(r.startedAt), moment(r.endedAt), took(r), el("span", bad ? "bad" : "", (RESULTS[r.result] || "") + r.result),
    r.result === "Running" || r.result === "Skipped" ? "" : r.exitCode, r.instance, r.attempt || "", r.fencingToken || ""];
  const list = [el("tr", null, cells.map((c) => el("td", null, c)))];
  if (r.error || r.output) list.push(el("tr", null, el("td", { colspan: cells.length, class: "text" },
    r.error && el("p", "bad", r.error), r.output && el("pre", { tabindex: 0, "aria-label": "Last lines of its output" }, r.output))));
  return list;
}

// ticks says whether a task is fired by a schedule, as far as that shows.
function ticks(t) { return t.nextRunAt || about.key === t.key && about.runs.some((r) => r.scheduledAt); }
// whereToChange says how to ask for changes that this page does not offer.
function whereToChange(t, verbs) {
  if (!verbs.length) return null;
  if (TAKES === "token" && who.name) return el("p", "soft", "The token of " + who.name + " has the role " + who.role + ", which does not allow to " + verbs.join(", ") + ".");
  return el("p", "soft", TAKES === "token" ? "To change it, give a token at the top of the page, or run " : "To change it, open the page of admin.listen, or run ",
    el("code", null, "shardctl " + verbs[0] + " " + t.key));
}
function applicationOf(t) {
  const owner = instances.find((i) => i.session === t.session);
  return owner ? owner.application : null;
}
function stopOf(t) {
  const a = applicationOf(t), stop = a && a.stopping.find((s) => s.key === t.key);
  return stop ? moment(stop.by) : "";
}
function fact(name, value) { return value === "" || value === null || value === undefined || value === false ? [] : [el("div", null, el("dt", null, name), el("dd", null, value))]; }

function drawTask() {
  const t = tasks.get(want.task), box = byId("one");
  const back = () => el("p", null, el("a", { href: "?" }, "← all tasks"));
  if (!t) {
    fill(box, [want.task, loaded], () => [back(), el("section", null, el("h2", null, want.task), el("p", null, loaded ? "No task with this key is declared." : "loading …"))]);
    return;
  }
  if (about.key !== t.key) refreshTask().then(draw);
  const fresh = about.key === t.key;
  if (box.sign !== undefined || !box.firstElementChild || box.dataset.key !== t.key) {
    delete box.sign;
    box.dataset.key = t.key;
    box.replaceChildren(back(), el("section", { class: "about", "aria-labelledby": "h1t" }, el("h2", { id: "h1t", tabindex: "-1" }, t.key), el("div"), el("div"), el("dl", "facts")),
      el("section", null, el("h2", null, "Last runs"), el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Last runs" })),
      el("section", null, el("h2", null, "Owners in the last hour"), el("div")),
      el("section", null, el("h2", null, "Output"), el("div"), el("pre", { tabindex: 0, hidden: true, "aria-label": "Output" })),
      el("section", null, el("h2", null, "History"), el("ol", "events")));
  }
  const [, facts, runs, hour, output, past] = box.children;
  const mine = status ? status.problems.filter((p) => p.task === t.key) : [];
  fill(facts.children[2], [mine, t.state, t.stateSince, ago(t.stateSince)], () => [
    el("p", null, stateBadge(t.state), " ", el("span", "soft", t.stateSince ? "for " + ago(t.stateSince) : "")),
    mine.length ? el("ul", "problems", mine.map(problemItem)) : null].filter(Boolean));
  fill(facts.children[3], [t, t.kind === "assign" && applicationOf(t)], () => [
    fact("last error", t.lastError && el("span", "bad", t.lastError)),
    fact("overrides", asked(t.overrides)),
    fact(t.instance ? "why it is there" : "why", t.reason + (t.message ? ": " + t.message : "")),
    fact("owner", t.instance && el("span", null, letter(t.instance), " ", el("a", { href: href({ instance: t.instance }) }, t.instance), el("span", "soft", " session " + t.session))),
    fact("application", t.kind === "assign" && runner(applicationOf(t))),
    fact("to stop by", stopOf(t)),
    fact("owned since", t.ownedSince && moment(t.ownedSince)), fact("fencing token", t.fencingToken || ""),
    fact("weight", t.weight === t.declaredWeight ? "" : t.weight + ", by weightFrom (declared: " + t.declaredWeight + ")"),
    fact("load", t.load === null || t.load === undefined ? "" : String(t.load)),
    fact("behind", t.lag && t.lag.messages >= 0 ? plural(t.lag.messages, "message") + (t.lag.messages && t.lag.seconds >= 0 ? ", the oldest " + t.lag.seconds + " s old" : "") : ""),
    fact("restarts", t.restarts), fact("next run", t.nextRunAt && moment(t.nextRunAt)), fact("pinned to", t.pinnedTo),
    fact("kind", t.kind), fact("group", el("a", { href: href({ group: t.group }) }, t.group)),
    fact("labels", Object.entries(t.labels).map(([k, v]) => k + "=" + v).join(", ")),
    ...Object.entries(t.declared || {}).map(([k, v]) => fact(k, v))].flat());
  const verbs = offered("tasks", t);
  fill(facts.children[1], [verbs, who], () => [buttons("tasks", t.key, verbs), whereToChange(t, verbs.filter((v) => !may(v)))].filter(Boolean));
  const list = fresh ? about.runs : [];
  runs.hidden = !list.length;
  fill(runs.lastElementChild, [list, list.some((r) => r.result === "Running") && Math.floor(Date.now() / 5000)], () => [el("table", null,
    el("thead", null, el("tr", null, ["tick", "started", "ended", "took", "result", "exit status", "instance", "attempt", "token"].map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", null, list.flatMap(runRows)))]);
  const changes = fresh ? changesOfOwner(about.events).filter((e) => Date.parse(e.time) > Date.now() - HOUR).reverse() : [];
  const now = Date.now(), start = beginning([changes], now);
  fill(hour.lastElementChild, [t.instance, changes.length, Math.floor(now / 30e3)], () => [lane(t, changes, start, now), scale(start, now)]);
  fill(output.children[1], "", () => [el("button", { type: "button", "data-verb": "output" }, "Show its last lines")]);
  output.lastElementChild.hidden = about.output === null || !fresh;
  if (about.output !== null) put(output.lastElementChild, about.output);
  fill(past.lastElementChild, [fresh, about.error, fresh && about.events.map((e) => e.id)], () =>
    about.error ? [el("li", "empty bad", about.error)] : !fresh || about.seen !== t.key ? [el("li", "empty", "loading …")] :
      about.events.length ? about.events.map(eventItem) : [el("li", "empty", "The store keeps no event of it.")]);
}
