// How the page hears of the cluster. Streams are read by fetch, since EventSource cannot send a token.
const RETRY = 2000, POLL = 5000, SILENCE = 40000, NEWEST = 5000;
let token = "";
try { token = sessionStorage.getItem("shardctl-token") || ""; } catch { /* the browser keeps nothing */ }

function headers(more) { return { ...(token ? { Authorization: "Bearer " + token } : {}), ...more }; }
async function problemOf(r) {
  try { const p = await r.json(); return (p.detail || p.title || "") + (p.errors || []).map((e) => " " + e.field + ": " + e.message).join(";"); } catch { return r.statusText; }
}
async function ask(path, accept) {
  const r = await fetch(path, { headers: headers({ Accept: accept || "application/json" }) });
  if (r.status === 401) keepToken("");
  if (!r.ok) throw new Error(r.status + ": " + await problemOf(r));
  return accept ? r : r.json();
}

// messages yields the events of a stream.
async function* messages(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", kind = "", data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(5));
      else if (line.startsWith("event:")) kind = line.slice(6).trim();
      else if (line === "" && data.length) { yield { kind, data: JSON.parse(data.join("\n")) }; kind = ""; data = []; }
    }
  }
}

// follow reads one stream, and again after a break, until it is closed.
function follow(name, path, handlers) {
  let control = null;
  const run = async (own) => {
    let timer = 0;
    while (!own.signal.aborted) {
      const once = new AbortController(), stop = () => once.abort();
      own.signal.addEventListener("abort", stop);
      const alive = () => { clearTimeout(timer); timer = setTimeout(stop, SILENCE); };
      try {
        alive();
        const r = await fetch(path, { headers: headers({ Accept: "text/event-stream" }), signal: once.signal });
        if (r.status === 401) keepToken("");
        if (!r.ok) throw new Error(String(r.status));
        for await (const m of messages(r.body, alive)) {
          if (own.signal.aborted) return;
          online[name] = true; lastSeen = new Date();
          if (handlers[m.kind]) handlers[m.kind](m.data);
          draw();
        }
      } catch { /* the header says that there is no connection */ }
      clearTimeout(timer);
      own.signal.removeEventListener("abort", stop);
      if (own.signal.aborted) return;
      online[name] = false;
      draw();
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  };
  return {
    open() { this.close(); control = new AbortController(); run(control); },
    close() { if (control) control.abort(); control = null; },
  };
}

// Two streams for each page: browsers allow six connections to a server, for all its pages together.
const streams = [
  follow("tasks", "api/v1/tasks?watch=true", {
    snapshot: (list) => {
      for (const name of [...new Set(list.items.map((t) => t.instance).filter(Boolean))].sort()) labelOf(name);
      tasks.clear(); sorted = null;
      list.items.forEach(setTask);
      loaded = true; listVersion++;
      pollSoon();
    },
    upsert: (t) => { setTask(t); if (t.key === want.task) taskMoved(); pollSoon(); },
    delete: (t) => { dropTask(t.key); pollSoon(); } }),
  follow("events", "api/v1/events?watch=true&since=1h&limit=" + NEWEST, {
    snapshot: (list) => { events = list.items; eventsKnown = true; if (want.task) taskMoved(); },
    upsert: (e) => { addEvent(e); if (e.key === want.task) taskMoved(); pollSoon(); } }),
];
let loaded = false; // the first list of tasks is there

// addEvent keeps an hour of events, the newest first. One may come late, when another replica wrote it.
function addEvent(e) {
  const at = events.findIndex((x) => x.id <= e.id);
  if (at >= 0 && events[at].id === e.id) return;
  events.splice(at < 0 ? events.length : at, 0, e);
  forgetOld();
}
function forgetOld() {
  const oldest = Date.now() - HOUR;
  while (events.length > NEWEST || events.length && Date.parse(events[events.length - 1].time) <= oldest) events.pop();
}

// The status and the instances are asked for, which costs no read of the store: soon after each change, and now and then.
let polling = 0, soon = 0, busy = false, again = false;
async function poll() {
  clearTimeout(polling);
  if (document.hidden) return;
  polling = setTimeout(poll, POLL);
  if (busy) { again = true; return; }
  busy = true; again = false;
  forgetOld();
  try {
    await askWho();
    const [now, list] = await Promise.all([ask("api/v1/status"), ask("api/v1/instances?limit=5000")]);
    status = now;
    instances = list.items;
    for (const i of instances) labelOf(i.name);
    await refreshTask();
  } catch { /* the streams show that there is no answer */ }
  busy = false;
  draw();
  if (again) pollSoon();
}
function pollSoon() { if (!soon) soon = setTimeout(() => { soon = 0; poll(); }, 300); }

// A hidden page gives its connections back: browsers allow few for each server.
function wake() {
  streams.forEach((s) => s.close());
  if (document.hidden) return;
  streams.forEach((s) => s.open());
  poll(); pollLocks();
}
