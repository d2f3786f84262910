// Instances as cards with their tasks. Above twenty of them the cards are closed.
const OPEN = 20, CHIPS = 40;
const RANKS = { draining: 0, dead: 0, live: 1, left: 2 };

function ownedWords(i) {
  return Object.keys({ ...i.owned, ...i.caps }).sort().map((g) => g + " " + (i.owned[g] || 0) + (g in i.caps ? " of " + i.caps[g] : "")).join(", ");
}
function sumOf(counts) { return Object.values(counts).reduce((a, b) => a + b, 0); }
function instanceBar(i, most) {
  const owned = sumOf(i.owned);
  // Groups without a cap give no limit to compare with: then it is compared with the instance that owns most.
  const all = Math.max(1, owned, Object.keys(i.owned).every((g) => g in i.caps) ? sumOf(i.caps) : most);
  const bar = el("div", { class: "bar", role: "img", "aria-label": i.name + " owns " + (ownedWords(i) || "nothing") });
  const part = paint(el("span"), i.name);
  part.style.width = (100 * owned / all) + "%";
  bar.append(part);
  return bar;
}
// runner says what the application beside an instance is, and how it is.
function runner(a) {
  return a && [a.pid ? "application pid " + a.pid : a.id ? "application " + a.id.slice(0, 8) : "no application", a.ready ? "ready" : "not ready: " + a.message,
    a.since && "for " + ago(a.since), a.lastCallAgeSeconds !== null && "last call " + a.lastCallAgeSeconds.toFixed(1) + " s ago",
    ...Object.entries(a.status).map(([k, v]) => k + "=" + v), a.stopping.length && "stopping " + plural(a.stopping.length, "key")].filter(Boolean).join(", ");
}
function chip(t) {
  return el("li", null, el("a", { class: "chip " + t.state, href: href({ task: t.key }), "aria-label": t.key + ", " + t.state },
    (t.state === "running" ? "" : MARKS[t.state] + " ") + t.name));
}
function drawInstances() {
  const shown = instances.filter((i) => i.state !== "left");
  const list = [...shown].sort((a, b) => RANKS[a.state] - RANKS[b.state] || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const lists = byOwner(), many = list.length > OPEN, most = Math.max(0, ...list.map((i) => sumOf(i.owned)));
  byId("instances").classList.toggle("small", many);
  put(byId("hi"), "Instances (" + list.length + ")");
  sync(byId("instances"), list, (i) => i.name + " " + i.session, () => {
    const card = el("details", { class: "card", open: !many }, el("summary"), el("div"));
    card.addEventListener("toggle", () => draw());
    return card;
  }, (card, i) => {
    const mine = (lists.get(i.name) || []).filter((t) => t.session === i.session);
    const cordoned = i.overrides.some((o) => o.kind === "cordon"), verbs = offered("instances", i);
    card.classList.toggle("trouble", i.state !== "live");
    const state = i.state + (cordoned ? ", cordoned" : "");
    fill(card.firstElementChild, [i.name, state, i.owned, i.caps, most], () => [
      letter(i.name), el("strong", i.state === "dead" ? "dead" : "", i.name), el("span", i.state === "live" ? "soft" : "bad", state),
      el("span", "soft", ownedWords(i)), instanceBar(i, most)]);
    if (!card.open) return;
    if (card.lastElementChild.children.length !== 4) card.lastElementChild.replaceChildren(el("p", "soft"), el("p", "asked"), el("ul", "chips"), el("div"));
    const [facts, why, keys, actions] = card.lastElementChild.children;
    put(facts, [i.zone && "zone " + i.zone, "version " + i.version, "up " + ago(i.startedAt), "heartbeat " + i.heartbeatAgeSeconds.toFixed(1) + " s ago", runner(i.application),
      ...Object.entries(i.labels).map(([k, v]) => k + "=" + v)].filter(Boolean).join(" · "));
    const message = /^(drain|cordon)ed/.test(i.message) ? "" : i.message; // what was asked for says it
    put(why, [message, asked(i.overrides)].filter(Boolean).join(". "));
    why.hidden = !why.textContent;
    fill(keys, [mine.slice(0, CHIPS).map((t) => [t.key, t.state]), mine.length], () => [
      ...mine.slice(0, CHIPS).map(chip),
      ...(mine.length > CHIPS ? [el("li", null, el("a", { href: href({ instance: i.name }) }, "all " + mine.length + " tasks of " + i.name))] : [])]);
    fill(actions, [verbs, who.verbs], () => [buttons("instances", i.name, verbs)].filter(Boolean));
  });
}
