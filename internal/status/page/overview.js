// The header, problems and groups.
function drawHeader() {
  const up = online.tasks && online.events, stale = status && status.stale;
  let text = "";
  if (!up && lastSeen) text = "Not connected to this replica: trying again. Below is how it was at " + lastSeen.toLocaleTimeString() + ".";
  else if (stale && !status.observedAt) text = "The store has not been read yet: nothing is known for sure. " + status.store.error;
  else if (stale) text = "The store has not answered since " + when(status.observedAt) + ": what is shown may be out of date, but not what this replica itself runs. " + status.store.error;
  put(byId("alert"), text);
  byId("alert").hidden = !text;
  const word = !up ? (lastSeen ? "not connected" : "connecting …") : stale ? "stale" : "live";
  put(byId("link"), word);
  byId("link").className = word === "live" || word === "stale" ? word : "off";
  const title = (want.task ? want.task + " · " : "") + "shardctl " + (status ? status.cluster : "");
  document.title = word === "live" ? title : "(" + word + ") " + title;
  if (!status) return;
  put(byId("cluster"), "· " + status.cluster);
  put(byId("seen"), "seen by " + status.instance + " " + status.version + (status.draining ? ", draining" : "") +
    " · store: " + status.store.kind + (status.store.reachable ? "" : ", unreachable"));
}

const EACH = 5; // problems shown of each reason
function problemItem(p) {
  const about = p.task ? taskLink(p.task) : p.group ? el("a", { href: href({ group: p.group }) }, p.group) : null;
  const on = p.instance ? el("a", { href: href({ instance: p.instance }) }, p.instance) : null;
  return el("li", p.severity, el("strong", null, (p.severity === "error" ? "✕ " : "! ") + p.reason), " ",
    el("span", "what", about, about && on ? " on " : "", on, about || on ? ": " : "", p.message, " ", p.since && el("span", "soft", "since " + when(p.since))), " ",
    el("a", { href: RUNBOOKS + p.reason.toLowerCase(), rel: "noreferrer", target: "_blank", "aria-label": "What to do about " + p.reason }, "What to do"));
}
function drawProblems() {
  const list = status ? status.problems : [];
  byId("problems").hidden = !list.length;
  put(byId("hp"), "Problems (" + list.length + ")");
  fill(byId("problems").querySelector("ul"), list, () => {
    const counts = new Map(), items = [];
    for (const p of list) {
      const n = (counts.get(p.reason) || 0) + 1;
      counts.set(p.reason, n);
      if (n <= EACH) items.push(problemItem(p));
    }
    for (const [reason, n] of counts) if (n > EACH) items.push(el("li", null, "and " + (n - EACH) + " more of " + reason + ". ", el("a", { href: href({ state: "trouble" }) }, "Tasks that need attention")));
    return items;
  });
}

function wrong(g) {
  return g.unassigned + g.failed + g.backoff + (status.problems.some((p) => p.group === g.name) ? 1 : 0);
}
function ownedOf(g) { return g.waiting + g.running + g.starting + g.stopping + g.backoff; }
function taken(g) {
  return (g.capacity === null ? ownedOf(g) + " of " + plural(g.tasks, "task") + " owned" : ownedOf(g) + " of a capacity of " + g.capacity + " taken") +
    (g.unassigned ? ", " + g.unassigned + " unassigned" : "");
}
// capacityBar shows how much of a group's capacity its tasks take, and how many have no owner.
function capacityBar(g) {
  const owned = ownedOf(g), all = Math.max(1, g.capacity || 0, owned + g.unassigned);
  const bar = el("div", { class: "bar", role: "img", "aria-label": g.name + ": " + taken(g) });
  for (const [cls, n] of [["fine", owned - g.backoff], ["bad", g.backoff], ["none", g.unassigned]]) {
    if (!n) continue;
    const part = el("span", cls);
    part.style.width = (100 * n / all) + "%";
    bar.append(part);
  }
  return bar;
}

function orNone(n) { return n === null ? "none" : n; }
function num(name, value, cls) { return el("span", "num", el("b", cls || "", value), " ", name); }

function drawGroups() {
  const list = status ? [...status.groups].sort((a, b) => (wrong(b) > 0) - (wrong(a) > 0) || (a.name < b.name ? -1 : 1)) : [];
  if (!status) return;
  if (!list.length) { fill(byId("groups"), "none", () => [el("p", "soft", "No groups are declared.")]); return; }
  sync(byId("groups"), list, (g) => g.name, () => el("article", "group"), (card, g) => {
    card.classList.toggle("trouble", wrong(g) > 0);
    fill(card, [g, wrong(g) > 0, who.verbs], () => [
      el("h3", null, el("a", { href: href({ group: g.name }) }, g.name), " ", el("span", "soft", plural(g.tasks, "task"))),
      el("div", "taken", capacityBar(g), el("span", "soft", taken(g))),
      el("p", "states", STATES.filter((s) => g[s]).map((s) => el("a", { href: href({ group: g.name, state: s }), class: "state " + s }, MARKS[s] + " " + g[s] + " " + s))),
      el("p", "nums", num("cap", orNone(g.cap)), num("capacity", orNone(g.capacity)),
        num("headroom", orNone(g.headroom), g.headroom !== null && g.headroom < 0 ? "bad" : ""), num("imbalance", g.imbalance),
        ...Object.entries(g.declared || {}).map(([k, v]) => num(k, v))),
      buttons("groups", g.name, offered("groups", g)),
      g.overrides.length ? el("p", "asked", asked(g.overrides)) : null,
    ].filter(Boolean));
  });
}
