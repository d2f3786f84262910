// Changes: each is shown with what it would move, and asked for with a reason, before it is sent.
const TAKES = document.documentElement.dataset.changes;
const UNKNOWN = { name: "", role: "none", verbs: [] };
let who = UNKNOWN; // as whom the page asks, and which changes are taken from it: only those are offered
function may(verb) { return who.verbs.includes(verb); }

// askWho asks as whom the page asks. An answer about a token that was given up meanwhile comes too late.
async function askWho() {
  if (!token && (TAKES !== "open" || who !== UNKNOWN)) return;
  const own = token;
  let answer = UNKNOWN;
  try { answer = await ask("api/v1/whoami"); } catch { return; } // a replica that does not answer shows elsewhere
  if (token !== own || JSON.stringify(answer) === JSON.stringify(who)) return;
  who = answer;
  drawToken(); draw();
}

// VERBS are the changes that there are, in the order of their buttons. The program writes them.
const VERBS = {{verbs}};
function verb(name) { return VERBS.find((v) => v.name === name); }
const SCOPES = { tasks: "task", groups: "group", instances: "instance" };
const ROLES = { read: "may read, and change nothing", operate: "may " + VERBS.filter((v) => v.role === "operate").map((v) => v.name).join(", ").replace(/, (\w+)$/, " and $1"),
  admin: "may change everything" };
// offered names the changes that make sense for an object as it is; what the replica would refuse is left out.
function offered(what, x) {
  const scope = SCOPES[what], stands = (kind) => x.overrides.some((o) => o.kind === kind && o.scope === scope);
  return VERBS.filter((v) => v.scopes.includes(scope) && (!v.only || v.only.includes(x.state)) && !(v.never || []).includes(x.state) &&
    (!v.ticks || ticks(x)) && (v.stands === undefined || v.stands === stands(v.kind))).map((v) => v.name);
}

// buttons are those for changes of one object that the role allows; none where it allows none.
function buttons(what, name, verbs) {
  const mine = verbs.filter(may);
  if (!mine.length) return null;
  return el("p", "buttons", mine.map((verb) => el("button", { type: "button", "data-verb": verb, "data-what": what, "data-name": name, "aria-label": verb + " " + name }, verb)));
}

let asking = null; // what the dialog asks for
function pathOf(what, name, verb) {
  return "api/v1/" + what + "/" + name.split("/").map(encodeURIComponent).join("/") + "/" + verb;
}
function freshID() { return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join(""); }

function openAsk(what, name, asked) {
  const v = verb(asked);
  asking = { what, name, verb: asked, id: freshID(), asked: 0 };
  put(byId("ask-title"), asked + " " + name + "?");
  put(byId("ask-text"), what === "groups" && v.effectOnGroup || v.effect);
  put(byId("ask-yes"), asked);
  byId("ask-to").hidden = !v.target;
  byId("ask-only").hidden = !v.place;
  byId("ask-instance").required = Boolean(v.target);
  byId("ask-instance").placeholder = v.place ? "an instance, a pattern, or zone=ZONE" : "an instance";
  for (const id of ["ask-instance", "ask-reason"]) byId(id).value = "";
  byId("ask-strict").checked = false;
  byId("ask-names").replaceChildren(...instances.filter((i) => i.state === "live").map((i) => el("option", { value: i.name })));
  byId("ask-yes").classList.toggle("strong", Boolean(v.strong));
  byId("ask-yes").disabled = false;
  put(byId("ask-error"), ""); put(byId("ask-preview"), "");
  byId("ask").showModal();
  (byId("ask-to").hidden ? byId("ask-reason") : byId("ask-instance")).focus();
  preview();
}

function bodyOf(dryRun) {
  const body = { reason: byId("ask-reason").value, dryRun };
  if (!dryRun) body.id = asking.id;
  if (!byId("ask-to").hidden) body.instance = byId("ask-instance").value.trim();
  if (!byId("ask-only").hidden) body.strict = byId("ask-strict").checked;
  return body;
}
async function send(dryRun) {
  const r = await fetch(pathOf(asking.what, asking.name, asking.verb), {
    method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(bodyOf(dryRun)) });
  if (r.ok) return r.json();
  const text = await problemOf(r);
  if (r.status === 401) { keepToken(""); throw new Error(text + ". Close this and give another token."); }
  throw new Error(text);
}
// preview asks what would move. A refusal shows before anything was asked for.
async function preview() {
  if (!byId("ask-to").hidden && !byId("ask-instance").value.trim()) return;
  const own = asking, n = ++own.asked;
  try {
    const result = await send(true);
    if (asking !== own || own.asked !== n) return;
    put(byId("ask-error"), "");
    const moves = result.moves || [];
    put(byId("ask-preview"), moves.length ? "Would move " + moves.length + (moves.length === 1 ? " task: " : " tasks: ") +
      moves.slice(0, 8).map((m) => m.key + " " + (m.from || "none") + " → " + (m.to || "none")).join(", ") + (moves.length > 8 ? ", …" : ".") :
      (result.unchanged || []).length ? "It is so already." : "No task would move.");
  } catch (e) {
    if (asking === own && own.asked === n) { put(byId("ask-preview"), ""); put(byId("ask-error"), e.message); }
  }
}
async function confirmAsk(event) {
  event.preventDefault();
  const own = asking;
  own.asked++; // a preview that is under way comes too late
  byId("ask-yes").disabled = true;
  try {
    await send(false);
    byId("ask").close();
    report(own.verb + " " + own.name + ": done.");
    pollSoon();
  } catch (e) {
    if (asking === own) put(byId("ask-error"), e.message);
  } finally { byId("ask-yes").disabled = false; }
}

let reporting = 0;
function report(text) {
  put(byId("said"), text);
  clearTimeout(reporting);
  reporting = setTimeout(() => put(byId("said"), ""), 6000);
}

// keepToken takes another token, or none. What the page shows depends on it, so it asks again.
function keepToken(text) {
  if (token === text) return;
  token = text;
  try { if (text) sessionStorage.setItem("shardctl-token", text); else sessionStorage.removeItem("shardctl-token"); } catch { /* the browser keeps nothing */ }
  who = UNKNOWN;
  drawToken(); wake();
}
function drawToken() {
  byId("token").hidden = TAKES === "open";
  put(byId("who"), token && TAKES === "token" && who.name ? who.name + " " + (ROLES[who.role] || who.role) : "");
  put(byId("token"), token ? "Token given" : TAKES === "token" ? "Give a token to change things" : "Token");
}

function initChanges() {
  drawToken();
  byId("ask-form").addEventListener("submit", confirmAsk);
  byId("ask-no").addEventListener("click", () => byId("ask").close());
  byId("ask-instance").addEventListener("change", preview);
  byId("ask-strict").addEventListener("change", preview);
  byId("token").addEventListener("click", () => { byId("key-text").value = ""; byId("key").showModal(); byId("key-text").focus(); });
  byId("key-no").addEventListener("click", () => byId("key").close());
  byId("key-forget").addEventListener("click", () => { keepToken(""); byId("key").close(); });
  byId("key-form").addEventListener("submit", (e) => {
    e.preventDefault();
    keepToken(byId("key-text").value.trim());
    byId("key-text").value = "";
    byId("key").close();
  });
  document.addEventListener("click", (e) => {
    const b = e.target.closest("button[data-verb]");
    if (!b) return;
    if (b.dataset.what) openAsk(b.dataset.what, b.dataset.name, b.dataset.verb);
    else if (b.dataset.verb === "output") showOutput();
    else if (b.dataset.verb === "lanes") { lanesShown += 100; draw(); }
  });
}
