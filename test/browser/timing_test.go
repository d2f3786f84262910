//go:build linux

package browser

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

// What is aimed at on a machine that does nothing else, and what fails on any.
const (
	paintAim, paintLimit   = time.Second, 10 * time.Second
	keyAim, keyLimit       = 100 * time.Millisecond, 2 * time.Second
	changeAim, changeLimit = time.Second, 10 * time.Second
)

// Five real replicas with a hundred tasks, one of which is killed with kill -9.
func TestFiveReplicasWithAHundredTasks(t *testing.T) {
	c := fiveByHundred(t)
	live := c.Live()
	p := openTimed(t, server(live[0]), 100)
	p.timePaint(t, "5 × 100")
	p.timeKeys(t, "5 × 100", "topic-042", "1 of 100")
	p.press(strings.Repeat("\b", len("topic-042")))
	p.wait(`document.querySelector("#found").textContent === ""`)
	p.wait(`document.querySelectorAll("#instances a.chip").length === 100`)

	victim := live[4]
	eval[bool](p, watchOwners)
	if _, err := victim.Kill(harness.Both, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.wait(`Object.keys(changedOwners).length >= 20`)
	p.wait(`document.querySelector("#instances").innerText.includes("dead")`)
	p.timeOwners(t, "5 × 100: kill -9")
	p.wait(`document.querySelectorAll("#lanes .held .task").length >= 20`)
	p.accessible("after-kill")
}

// openTimed opens the page, and waits until all its tasks are there.
func openTimed(t *testing.T, url string, tasks int) *tab {
	t.Helper()
	l := desk
	l.first = `window.seen = {}; new MutationObserver(() => {
		const head = document.getElementById("ht"), row = document.querySelector("#tbody .row");
		if (head && row) window.seen[head.textContent] ??= performance.now();
	}).observe(document, { subtree: true, childList: true, characterData: true });`
	p := open(t, url, l)
	p.wait(fmt.Sprintf(`"Tasks (%d)" in window.seen`, tasks))
	return p
}

func ms(value float64) time.Duration { return time.Duration(value * float64(time.Millisecond)) }

func (p *tab) timePaint(t *testing.T, size string) {
	t.Helper()
	p.wait(`performance.getEntriesByName("first-contentful-paint").length`)
	figure(
		t, size+": first paint",
		ms(eval[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)), paintAim,
		paintLimit,
	)
	figure(
		t, size+": all tasks known and drawn", ms(eval[float64](p, `Math.max(...Object.values(window.seen))`)),
		paintAim, paintLimit,
	)
}

// timeKeys types into the filter. A keystroke takes from the moment it is received until what it changed is painted.
func (p *tab) timeKeys(t *testing.T, size, text, found string) {
	t.Helper()
	p.click("#q")
	eval[bool](p, `window.keys = [], document.getElementById("q").addEventListener("keydown", (e) => requestAnimationFrame(() => {
		const after = new MessageChannel();
		after.port1.onmessage = () => keys.push(performance.now() - e.timeStamp);
		after.port2.postMessage(0);
	})), true`)
	for n, key := range text {
		p.press(string(key))
		p.wait(fmt.Sprintf(`keys.length === %d`, n+1))
	}
	p.wait(fmt.Sprintf(`document.querySelector("#found").textContent === %q`, found))
	times := eval[[]float64](p, `keys`)
	slices.Sort(times)
	figure(
		t, fmt.Sprintf("%s: slowest of %d keystrokes in the filter", size, len(times)), ms(times[len(times)-1]), keyAim,
		keyLimit,
	)
}

// watchOwners notes when a task is painted under another instance than before, by its key.
const watchOwners = `(() => {
	const owners = () => new Map([...document.querySelectorAll("#instances details")].flatMap((card) => {
		const name = card.querySelector("summary strong").textContent;
		return [...card.querySelectorAll("a.chip")].map((a) => [a.getAttribute("aria-label").split(",")[0], name]);
	}));
	const before = owners();
	window.changedOwners = {};
	new MutationObserver(() => {
		for (const [key, name] of owners()) {
			if (before.get(key) === name) continue;
			before.set(key, name);
			requestAnimationFrame(() => { changedOwners[key] = { to: name, at: Date.now() }; });
		}
	}).observe(document.getElementById("instances"), { subtree: true, childList: true });
	return before.size > 0;
})()`

// timeOwners compares when tasks were seen with a new owner with when that owner claimed them.
func (p *tab) timeOwners(t *testing.T, what string) {
	t.Helper()
	late := eval[[]float64](p, `fetch("api/v1/tasks?limit=5000").then((r) => r.json()).then((list) => list.items
		.filter((task) => changedOwners[task.key]?.to === task.instance)
		.map((task) => changedOwners[task.key].at - Date.parse(task.ownedSince)))`)
	if len(late) < 20 {
		t.Fatalf("%d tasks were seen with their new owner, want 20", len(late))
	}
	slices.Sort(late)
	figure(
		t, fmt.Sprintf("%s: last of %d changes of owner seen after the claim", what, len(late)), ms(late[len(late)-1]),
		changeAim, changeLimit,
	)
}

// One real replica serves fifty instances with ten thousand tasks.
func TestFiftyInstancesWithTenThousandTasks(t *testing.T) {
	f := newFleet(t)
	p := openTimed(t, server(f.replica), fleetTasks)
	const size = "50 × 10,000"
	p.timePaint(t, size)
	p.wait(`document.querySelectorAll("#instances details").length === 50`)
	if open := p.count("#instances details[open]"); open != 0 {
		t.Errorf("%d of 50 instances are not collapsed", open)
	}
	p.accessible("fleet")
	p.timeKeys(t, size, "topic-07042", "1 of 10000")
	p.accessible("fleet-found")

	const key = "topics/topic-07042"
	from := f.owner(record.Key(key))
	for n, to := range f.members[:5] {
		if to == from {
			t.Fatalf("%s already owns %s", to.name, key)
		}
		at := f.move(record.Key(key), to)
		seen := eval[float64](p, fmt.Sprintf(`new Promise((resolve) => { const look = () =>
			document.querySelector("#tbody .c-instance")?.innerText.includes(%q) ? resolve(Date.now()) : requestAnimationFrame(look);
			look(); })`, to.name))
		late := time.UnixMilli(int64(seen)).Sub(at)
		figure(t, fmt.Sprintf("%s: change %d of an owner seen", size, n+1), late, changeAim, changeLimit)
	}
	p.wait(`document.querySelectorAll("#lanes .held .task").length === 1`)
	p.click("#instances details summary")
	p.wait(`document.querySelectorAll("#instances details[open] a.chip").length > 20`)
	p.accessible("fleet-opened")
	p.emulate(phone)
	p.accessible("fleet-phone")
}
