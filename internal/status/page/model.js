// What is known of the cluster, and what the address asks for.
const tasks = new Map(); // by key
const online = { tasks: false, events: false };
let status = null, instances = [], events = [], lastSeen = null;
let eventsKnown = false; // the first answer about events is there
let listVersion = 0; // rises when tasks change

const FILTERS = ["q", "group", "state", "instance", "kind"];
const want = { q: "", group: "", state: "", instance: "", kind: "", sort: "", task: "" };

function readAddress() {
  const p = new URLSearchParams(location.search);
  for (const name of Object.keys(want)) want[name] = p.get(name) || "";
}
// href is the address of this page with these wants and no others.
function href(wants) {
  const p = new URLSearchParams();
  for (const [name, value] of Object.entries(wants)) if (value) p.set(name, value);
  return "?" + p;
}
let addressTimer = 0;
function go(address) {
  if (!want.task) scrolled = scrollY;
  clearTimeout(addressTimer);
  history.replaceState(null, "", href(want)); // to come back to
  history.pushState(null, "", address);
  moved(false);
}
// keepAddress notes the filter in the address. Browsers allow few changes of it a second.
function keepAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, "", href(want)), 300);
}
function taskLink(key, cls) { return el("a", { href: href({ task: key }), class: cls || "task" }, key); }

function setTask(t) {
  const has = tasks.has(t.key);
  t.text = [t.key, t.kind, t.state, t.instance, t.reason, t.message, t.lastError, t.pinnedTo,
    ...Object.entries(t.labels).map(([k, v]) => k + "=" + v)].join("\n").toLowerCase();
  tasks.set(t.key, t);
  listVersion++;
  if (!has) sorted = null;
}
function dropTask(key) { tasks.delete(key); sorted = null; listVersion++; }

function inTrouble(t) { return TROUBLE.has(t.state) || t.lastError !== ""; }

let sorted = null; // all tasks' keys, in order
function keysInOrder() {
  if (!sorted) sorted = [...tasks.keys()].sort((a, b) => a < b ? -1 : a > b ? 1 : 0);
  return sorted;
}

// byOwner are the tasks of each instance, in order of key. It is made once for each version of the list.
let owners = { version: -1 };
function byOwner() {
  if (owners.version === listVersion) return owners.map;
  const map = new Map();
  let trouble = 0;
  for (const key of keysInOrder()) {
    const t = tasks.get(key), list = map.get(t.instance);
    if (list) list.push(t); else map.set(t.instance, [t]);
    if (inTrouble(t)) trouble++;
  }
  owners = { version: listVersion, map, trouble };
  return map;
}
