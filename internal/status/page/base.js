"use strict";
// Small helpers: elements, times, marks. Texts of the cluster only ever become text, never HTML.
const STATES = ["waiting", "running", "starting", "stopping", "backoff", "unassigned", "paused", "done", "failed"];
const TROUBLE = new Set(["unassigned", "backoff", "failed"]);
const MARKS = { waiting: "◷", running: "▶", starting: "↑", stopping: "↓", backoff: "!", unassigned: "?", paused: "‖", done: "✓", failed: "✕" };
const RUNBOOKS = "https://github.com/shardctl/shardctl/blob/main/docs/operations/problems.md#";
const HOUR = 3600e3;
const byId = (id) => document.getElementById(id);

// el makes an element. Attributes may be a class, children texts or elements; null and false are left out.
function el(tag, attrs, ...children) {
  const e = document.createElement(tag);
  if (typeof attrs === "string") e.className = attrs;
  else for (const [name, value] of Object.entries(attrs || {})) if (value !== null && value !== false) e.setAttribute(name, value === true ? "" : value);
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false && c !== "").map((c) => typeof c === "number" ? String(c) : c));
  return e;
}

function put(e, text) { if (e.textContent !== text) e.textContent = text; }

// fill builds the content of e again if what it shows has changed. The focus stays on the link or button it was on.
function fill(e, shown, build) {
  const sign = JSON.stringify(shown);
  if (e.sign === sign) return;
  e.sign = sign;
  const focus = e.contains(document.activeElement) ? handle(document.activeElement) : null;
  e.replaceChildren(...build());
  if (focus) [...e.querySelectorAll("a, button, summary")].find((c) => handle(c) === focus)?.focus({ preventScroll: true });
}
function handle(e) { return e.getAttribute("href") || e.dataset.verb || e.textContent; }

// sync makes the children of e those of the items, in order. Elements of items that stay are kept, with their focus.
function sync(e, items, keyOf, make, update) {
  const keep = new Map(items.map((i) => [keyOf(i), i]));
  const old = new Map();
  for (const c of [...e.children]) { if (keep.has(c.key)) old.set(c.key, c); else c.remove(); }
  let at = e.firstElementChild;
  for (const [key, item] of keep) {
    let c = old.get(key);
    if (!c) { c = make(item); c.key = key; }
    update(c, item);
    if (c === at) at = at.nextElementSibling; else e.insertBefore(c, at);
  }
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d";
}
// precise is span with a tenth of a second, for what may be short.
function precise(ms) { return ms < 100 ? Math.max(0, Math.round(ms)) + " ms" : ms < 10e3 ? (ms / 1000).toFixed(1) + " s" : span(ms); }
function plural(n, noun) { return n + " " + noun + (n === 1 ? "" : "s"); }
function ago(t) { return t ? span(Date.now() - Date.parse(t)) : ""; }
function when(t) {
  if (!t) return "";
  const d = new Date(t), today = d.toDateString() === new Date().toDateString();
  return today ? d.toLocaleTimeString() : d.toLocaleString();
}
function moment(t) { return t ? el("time", { datetime: t, title: new Date(t).toLocaleString() }, when(t)) : ""; }

// Letters for instances, so that colour is never the only sign: A … Z, AA … Hues are far apart for neighbours.
const labels = new Map();
function letters(n) { let s = ""; for (n++; n > 0; n = Math.floor((n - 1) / 26)) s = String.fromCharCode(65 + (n - 1) % 26) + s; return s; }
function labelOf(name) {
  if (!labels.has(name)) { const n = labels.size; labels.set(name, { text: letters(n), hue: Math.round(n * 137.508) % 360 }); }
  return labels.get(name);
}
function paint(e, name) { if (name) { e.classList.add("owned"); e.style.setProperty("--h", labelOf(name).hue); } return e; }
function letter(name) { return paint(el("span", { class: "letter", "aria-hidden": "true" }, name ? labelOf(name).text : "?"), name); }
function stateBadge(state) { return el("span", "state " + state, MARKS[state] + " " + state); }

// What operators asked for: who, why and since when.
function asked(list) {
  return list.map((o) => o.kind + (o.to ? " to " + o.to : "") + (o.strict ? " (strict)" : "") + (o.scope === "group" ? " of the group" : "") +
    (o.by ? " by " + o.by : "") + (o.at ? " since " + when(o.at) : "") + (o.until ? " until " + when(o.until) : "") + (o.reason ? ": " + o.reason : "")).join("; ");
}
