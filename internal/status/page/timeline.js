// Who owned what in the last hour, from events; and the list of events.
const LANES = 20, EVENTS = 25;
let lanesShown = LANES;

// beginning is when the time line begins: an hour ago, or with the first owner of the oldest of these tasks.
function beginning(lists, now) {
  const hour = now - HOUR;
  let from = now - 10e3;
  for (const changes of lists) from = Math.min(from, !changes.length || changes[0].from ? hour : Date.parse(changes[0].time));
  return Math.max(hour, from);
}

// segments are the owners of a task one after the other. Its changes of owner are given with the oldest first.
function segments(changes, owner, start, now) {
  const list = [];
  let at = start, held = null;
  for (const e of changes) {
    const t = Date.parse(e.time);
    if (t > at) list.push({ owner: held === null ? e.from : held, from: at, to: t });
    held = e.to; at = Math.max(at, t);
  }
  list.push({ owner, from: at, to: now });
  return list.filter((s, n) => s.to > s.from || n === list.length - 1);
}
function changesOfOwner(list) { return list.filter((e) => e.key && (e.type === "Moved" || e.type === "Released")); }

function lane(t, changes, start, now) {
  const list = segments(changes, t.instance, start, now), length = now - start;
  const words = list.map((s) => (s.owner || "no owner") + " from " + new Date(s.from).toLocaleTimeString()).join(", ");
  const bar = el("div", { class: "lane", role: "img", "aria-label": "Owners of " + t.key + ": " + words, title: words });
  for (const s of list) {
    const part = paint(el("span", s.owner ? "" : "none", s.owner && (s.to - s.from) > length / 40 ? labelOf(s.owner).text + " " + s.owner : ""), s.owner);
    part.style.width = (100 * (s.to - s.from) / length) + "%";
    bar.append(part);
  }
  return bar;
}
function scale(start, now) {
  const exact = now - start < HOUR / 6 ? { second: "2-digit" } : {};
  const at = (part) => new Date(start + part * (now - start)).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...exact });
  return el("div", { class: "scale", "aria-hidden": "true" }, [0, .25, .5, .75].map((part) => el("span", null, at(part))), el("span", null, "now"));
}

function drawLanes() {
  const byKey = new Map();
  for (const e of changesOfOwner(events)) {
    const list = byKey.get(e.key);
    if (list) list.unshift(e); else byKey.set(e.key, [e]);
  }
  const left = new Set(view.map((t) => t.key)), keys = [...byKey.keys()].filter((k) => left.has(k));
  const shown = keys.slice(0, lanesShown), now = Date.now(), start = beginning(shown.map((k) => byKey.get(k)), now);
  const sign = [shown.map((k) => [k, byKey.get(k).length, tasks.get(k).instance]), keys.length, view.length, Math.floor(now / 30e3)];
  fill(byId("lanes"), sign, () => [
    keys.length ? el("div", "held", el("span"), scale(start, now)) : null,
    ...shown.map((k) => el("div", "held", taskLink(k), lane(tasks.get(k), byKey.get(k), start, now))),
    keys.length > shown.length ? el("button", { type: "button", "data-verb": "lanes" }, "Show " + (keys.length - shown.length) + " more") : null,
    loaded && view.length > keys.length ? el("p", "soft", keys.length ? plural(view.length - keys.length, "other task") + " kept the same owner." :
      view.length === 1 ? "It kept the same owner." : "All " + view.length + " tasks kept the same owner.") : null,
  ].filter(Boolean));
}

const BAD = new Set(["Died", "LeaseLost", "CrashLoop", "RunFailed", "Failed", "TickMissed", "Refused", "ApplicationGone", "ApplicationRefused"]);
function named(instance) { return instance ? [letter(instance), instance] : [el("span", "soft", "none")]; }
// way says which instances an event is about: from where to where a task went, or the one that it happened to.
function way(e) {
  if (e.from && e.to && e.from !== e.to || e.type === "Moved" || e.type === "Released") return [...named(e.from), " → ", ...named(e.to)];
  return e.to || e.from ? named(e.to || e.from) : [];
}
function eventItem(e) {
  return el("li", BAD.has(e.type) ? "bad" : "", el("span", null, moment(e.time)), el("strong", null, e.type + (e.reason && !e.type.includes(e.reason) ? " · " + e.reason : "")),
    el("span", "of", e.key ? taskLink(e.key) : e.group || ""), el("span", "way", way(e)), el("span", "soft", (e.by ? "by " + e.by + ". " : "") + e.message));
}
function drawEvents() {
  fill(byId("events"), [eventsKnown, events.slice(0, EVENTS).map((e) => e.id)], () => events.length ? events.slice(0, EVENTS).map(eventItem) :
    [el("li", "empty", eventsKnown ? "Nothing happened in the last hour." : "loading …")]);
}
