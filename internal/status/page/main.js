// What is drawn, and when.
const PACE = 100; // ms between drawings, whatever arrives
const PRESS = 2000; // ms that a press holds drawings up at most
let drawing = false, drawn = 0, scrolled = 0; // scrolled: how far the overview was
let pressed = 0; // since when, while a button or a finger is down

// show draws all that is in sight: the page of one task, or the overview.
function show() {
  const one = want.task !== "";
  byId("overview").hidden = one;
  byId("one").hidden = !one;
  drawHeader();
  if (one) { drawTask(); return; }
  drawGlance(); drawProblems(); drawGroups(); drawInstances(); drawFilter(); drawTable(); drawLocks(); drawLanes(); drawEvents();
}
function draw() {
  if (drawing) return;
  drawing = true;
  // The first at once, the rest joined to at most ten times a second.
  const wait = Math.max(0, drawn + PACE - Date.now());
  drawn = Date.now() + wait;
  setTimeout(() => requestAnimationFrame(() => {
    drawing = false;
    if (Date.now() - pressed >= PRESS) show();
  }), wait);
}
// While something is pressed nothing is drawn: a button that is drawn again, or moves, between press and release gets no
// click.
addEventListener("pointerdown", () => { pressed = Date.now(); }, true);
for (const over of ["pointerup", "pointercancel"]) {
  addEventListener(over, () => setTimeout(() => { pressed = 0; draw(); }), true);
}

// moved takes what the address now asks for. Who goes back comes to where they were.
function moved(back) {
  const before = want.task;
  readAddress();
  show();
  if (back && !want.task) { scrollTo(0, scrolled); return; }
  if (want.task === before) { if (!want.task && FILTERS.some((f) => want[f])) byId("tasks").scrollIntoView(); return; }
  scrollTo(0, 0);
  if (want.task) { refreshTask().then(draw); byId("one").querySelector("h2")?.focus(); }
  else if (FILTERS.some((f) => want[f])) byId("tasks").scrollIntoView();
}

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  put(byId("theme"), "Theme: " + theme);
  try { localStorage.setItem("shardctl-theme", theme); } catch { /* the browser keeps nothing */ }
}
function initTheme() {
  let theme = "auto";
  try { theme = localStorage.getItem("shardctl-theme") || theme; } catch { /* the browser keeps nothing */ }
  if (THEMES.includes(theme)) setTheme(theme);
  byId("theme").addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "auto") + 1) % THEMES.length]);
  });
}

document.addEventListener("click", (e) => {
  const a = e.target.closest("a[href^='?']");
  if (!a || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || new URLSearchParams(a.getAttribute("href")).has("view")) return;
  e.preventDefault();
  go(a.getAttribute("href"));
});
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
  e.preventDefault();
  find();
});
addEventListener("popstate", () => moved(true));
document.addEventListener("visibilitychange", wake);
setInterval(() => { if (!document.hidden) draw(); }, 10000); // ages
readAddress();
initTheme(); initChanges(); initTable(); initLocks();
show(); wake();
