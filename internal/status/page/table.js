// The table of tasks. Only the rows that are in sight are in the document, so that ten thousand are as quick as ten.
const COLUMNS = [
  { name: "task", of: (t) => t.key }, { name: "state", of: (t) => STATES.indexOf(t.state) }, { name: "instance", of: (t) => t.instance },
  { name: "kind", of: (t) => t.kind }, { name: "since", of: (t) => t.stateSince || "" }, { name: "restarts", of: (t) => t.restarts },
  { name: "next run", of: (t) => t.nextRunAt || "~" }, { name: "why", of: (t) => t.lastError || t.message },
];
const NO_ONE = "-", ANYTHING = "trouble", MARGIN = 8;
let view = []; // the tasks that the filter leaves, in order
let rowHeight = 36;

function makeView() {
  const words = want.q.toLowerCase().split(/\s+/).filter(Boolean), list = [];
  for (const key of keysInOrder()) {
    const t = tasks.get(key);
    if (want.group && t.group !== want.group || want.kind && t.kind !== want.kind) continue;
    if (want.state && (want.state === ANYTHING ? !inTrouble(t) : t.state !== want.state)) continue;
    if (want.instance && t.instance !== (want.instance === NO_ONE ? "" : want.instance)) continue;
    if (words.every((w) => t.text.includes(w))) list.push(t);
  }
  const down = want.sort.startsWith("-"), column = COLUMNS.find((c) => c.name === want.sort.replace(/^-/, ""));
  if (column && column.name !== "task") list.sort((a, b) => { const x = column.of(a), y = column.of(b); return x < y ? -1 : x > y ? 1 : 0; });
  if (down) list.reverse();
  return list;
}

function cell(cls, ...children) { return el("div", { role: "cell", class: cls }, ...children); }
function makeRow() { return el("div", { role: "row", class: "row" }); }
function updateRow(row, t, n) {
  row.style.top = n * rowHeight + "px";
  row.setAttribute("aria-rowindex", n + 2);
  const age = ago(t.stateSince);
  if (row.of === t && row.age === age) return;
  if (row.of && row.of.instance !== t.instance) { row.classList.remove("moved"); void row.offsetWidth; row.classList.add("moved"); }
  row.of = t; row.age = age;
  const why = t.lastError || (t.reason + (t.message ? ": " + t.message : "")), pinned = t.overrides.length ? asked(t.overrides) + ". " : "";
  fill(row, [t.key, t.state, t.instance, t.kind + behind(t), age, t.restarts, t.nextRunAt, why, pinned], () => [
    cell("c-task", taskLink(t.key)),
    cell("c-state", stateBadge(t.state)),
    cell("c-instance", letter(t.instance), t.instance ? el("a", { href: href({ instance: t.instance }) }, t.instance) : el("span", "soft", "none")),
    cell("c-kind soft", t.kind + behind(t)),
    cell("c-since soft", age),
    cell("c-restarts", String(t.restarts)),
    cell("c-next", t.nextRunAt ? moment(t.nextRunAt) : ""),
    cell("c-why " + (t.lastError ? "bad" : "soft"), el("span", { title: pinned + why }, pinned + why)),
  ]);
}

// behind is how far a subscription is behind, where it is.
function behind(t) { return t.lag && t.lag.messages > 0 ? ", " + t.lag.messages.toLocaleString() + " behind" : ""; }

// drawRows shows the rows that are in sight.
function drawRows() {
  const box = byId("scroller"), body = byId("tbody");
  const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - MARGIN);
  const last = Math.min(view.length, Math.ceil((box.scrollTop + box.clientHeight) / rowHeight) + MARGIN);
  const list = [];
  for (let n = first; n < last; n++) list.push(n);
  sync(body, list, (n) => view[n].key, makeRow, (row, n) => updateRow(row, view[n], n));
}

let drawnView = "";
function drawTable() {
  const sign = listVersion + JSON.stringify(FILTERS.map((f) => want[f])) + want.sort;
  if (sign !== drawnView) {
    drawnView = sign;
    view = makeView();
    byId("tbody").style.height = Math.max(1, view.length) * rowHeight + "px";
    byId("table").setAttribute("aria-rowcount", view.length + 1);
    const filtered = FILTERS.some((f) => want[f]);
    put(byId("ht"), "Tasks (" + tasks.size + ")");
    put(byId("found"), !loaded ? "loading …" : filtered ? view.length + " of " + tasks.size : tasks.size ? "" : "No tasks are declared.");
    byId("all").hidden = !filtered;
  }
  drawHead();
  drawRows();
}
function drawHead() {
  fill(byId("thead"), want.sort, () => [el("div", { role: "row", class: "row", "aria-rowindex": 1 }, COLUMNS.map((c) => {
    const way = want.sort === c.name || !want.sort && c.name === "task" ? "ascending" : want.sort === "-" + c.name ? "descending" : "none";
    return el("div", { role: "columnheader", class: "c-" + c.name.split(" ")[0], "aria-sort": way },
      el("button", { type: "button", "data-verb": "sort " + c.name, "data-sort": way === "ascending" ? "-" + c.name : c.name }, c.name + (way === "ascending" ? " ↑" : way === "descending" ? " ↓" : "")));
  }))]);
}

function options(select, list, now) {
  fill(select, list, () => list.map(([value, text]) => el("option", { value }, text || value)));
  if (select.value !== now) select.value = now;
}
function withNow(list, now) { return now && !list.some(([v]) => v === now) ? [...list, [now]] : list; }
function drawFilter() {
  if (byId("q").value !== want.q) byId("q").value = want.q;
  const any = ["", "any"];
  options(byId("f-group"), withNow([any, ...(status ? status.groups : []).map((g) => [g.name])], want.group), want.group);
  options(byId("f-state"), [any, [ANYTHING, "needs attention"], ...STATES.map((s) => [s])], want.state);
  options(byId("f-instance"), withNow([any, [NO_ONE, "none"], ...[...new Set(instances.filter((i) => i.state !== "left").map((i) => i.name))].map((n) => [n])], want.instance), want.instance);
  byOwner();
  const kinds = owners.kinds || (owners.kinds = [...new Set([...tasks.values()].map((t) => t.kind))].sort());
  options(byId("f-kind"), withNow([any, ...kinds.map((k) => [k])], want.kind), want.kind);
  options(byId("f-sort"), COLUMNS.flatMap((c, n) => [[n ? c.name : "", c.name + " ↑"], ["-" + c.name, c.name + " ↓"]]), want.sort);
}

// step moves the focus by some rows, also to those that are not in the document yet.
function step(from, by) {
  const at = view.findIndex((t) => t.key === from), to = Math.min(view.length - 1, Math.max(0, at + by));
  if (at < 0 || view.length === 0) return;
  const box = byId("scroller"), top = to * rowHeight;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + rowHeight - box.clientHeight;
  drawRows();
  [...byId("tbody").children].find((r) => r.key === view[to].key)?.querySelector("a").focus({ preventScroll: true });
}
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };

function narrow(wants) {
  Object.assign(want, wants);
  keepAddress();
  byId("scroller").scrollTop = 0;
  drawFilter(); drawTable();
  draw();
}
// find leads to the field that searches, from wherever the reader is.
function find() {
  if (want.task) go("?");
  byId("tasks").scrollIntoView();
  byId("q").focus({ preventScroll: true });
  byId("q").select();
}
function initTable() {
  const box = byId("scroller");
  let waiting = false;
  box.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; drawRows(); });
  });
  box.addEventListener("keydown", (e) => {
    const row = e.target.closest(".row");
    if (!row || !(e.key in STEPS) || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    step(row.key, STEPS[e.key]);
  });
  byId("thead").addEventListener("click", (e) => {
    const b = e.target.closest("button");
    if (b) narrow({ sort: b.dataset.sort === "task" ? "" : b.dataset.sort });
  });
  byId("q").addEventListener("input", () => narrow({ q: byId("q").value }));
  for (const f of ["group", "state", "instance", "kind", "sort"]) byId("f-" + f).addEventListener("change", () => narrow({ [f]: byId("f-" + f).value }));
  byId("find").addEventListener("click", find);
  byId("filter").addEventListener("submit", (e) => {
    e.preventDefault();
    if (view.length === 1) go(href({ task: view[0].key }));
    else byId("tbody").querySelector("a")?.focus();
  });
  const size = () => {
    const small = matchMedia("(max-width: 45rem)").matches, rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    rowHeight = Math.round(rem * (small ? 4.25 : 2.25));
    document.documentElement.style.setProperty("--row", rowHeight + "px");
    drawnView = "";
    drawTable();
  };
  addEventListener("resize", size);
  size();
}
