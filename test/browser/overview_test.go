//go:build linux

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The page of the listener that only reads, and of the one that takes changes, on every kind of screen.
func TestPageIsWholeAndAccessible(t *testing.T) {
	t.Parallel()
	s := newShop(t, "")
	s.broken(t)
	r := s.Live()[0]
	for name, l := range map[string]look{"desk": desk, "dark": dark, "phone": phone, "night": night} {
		t.Run(name, func(t *testing.T) {
			p := open(t, admin(r), l)
			p.whole(t)
			p.accessible("overview-" + name)
			for _, key := range []string{
				"reports/nightly-report", "mail/sync-customers", "mail/ping",
				"orders/" + longName,
			} {
				p.do(navigate(admin(r) + "?task=" + key))
				p.wait(`document.querySelectorAll("#one dl dt").length > 3 && !document.body.innerText.includes("loading …")`)
				if key == "mail/ping" { // it ticks each second: the last ten runs are kept
					p.wait(`document.querySelectorAll("#one table tbody tr").length === 10`)
				}
				p.accessible("task-" + name + "-" + key[strings.Index(key, "/")+1:][:4])
			}
		})
	}
	t.Run("plain", func(t *testing.T) {
		p := open(t, server(r)+"?view=plain", desk)
		p.accessible("plain")
		p.emulate(night)
		p.accessible("plain-night")
	})
	t.Run("without script", func(t *testing.T) { plainWithoutScript(t, s) })
	t.Run("policy", func(t *testing.T) { policyHolds(t, s) })
	t.Run("keyboard", func(t *testing.T) { keyboardReachesAll(t, s) })
	t.Run("address", func(t *testing.T) { addressKeepsFilter(t, s) })
	t.Run("locks", func(t *testing.T) { locksAreShown(t, s) })
}

// locksAreShown holds that the page shows who holds the locks of programs and who waits, while that part is open.
func locksAreShown(t *testing.T, s *shop) {
	t.Helper()
	s.lock(t, "deploy/web")
	p := open(t, admin(s.Live()[0]), desk)
	p.listed()
	if n := p.count("#locks-list li"); n != 0 {
		t.Errorf("%d locks are shown before the part is opened", n)
	}
	p.click("#locks summary")
	p.wait(`document.querySelector("#locks-list").innerText.includes("deploy/web")`)
	s.lock(t, "deploy/web")
	s.lock(t, "backup")
	p.wait(`document.querySelector("#locks-list").innerText.includes("1 waiting")`)
	p.wait(`document.querySelectorAll("#locks-list > li").length === 2`)
	if text := p.text("#locks-list"); !strings.Contains(text, "1 writer") || !strings.Contains(text, "token") {
		t.Errorf("the locks are %q", text)
	}
	p.accessible("locks")
	p.click("#locks-q")
	p.press("backup")
	p.wait(`document.querySelectorAll("#locks-list > li").length === 1`)
	p.emulate(phone)
	p.accessible("locks-phone")
}

// shopTasks are all tasks of a shop.
const shopTasks = 9 + 3 + 1 + 2 + 2

// listed waits until the page has all tasks and instances.
func (p *tab) listed() {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.querySelector("#ht").textContent === "Tasks (%d)"`, shopTasks))
	p.wait(`document.querySelector("#link").textContent === "live"`)
	p.wait(`document.querySelectorAll("#instances details").length === 2`)
}

// whole says that everything that a broken shop has is on the page.
func (p *tab) whole(t *testing.T) {
	t.Helper()
	p.listed()
	p.wait(`document.querySelectorAll("#groups article").length === 5`)
	p.wait(fmt.Sprintf(`document.querySelectorAll("#tbody .row").length === %d`, shopTasks))
	p.wait(`document.querySelectorAll("#events li time").length > 3`)
	for _, want := range []string{"mail/sync-customers", "jobs/migrate", "reports/nightly-report"} {
		p.wait(fmt.Sprintf(`document.querySelector("#problems").innerText.includes(%q)`, want))
	}
	// All in one look: problems come and go meanwhile.
	if lost := eval[[]string](p, `[...document.querySelectorAll("#problems li")].filter((li) =>
		![...li.querySelectorAll("a")].some((a) => a.href.includes("/docs/operations/problems.md#")))
		.map((li) => li.innerText)`); len(lost) > 0 {
		t.Errorf("%d problems do not lead to what to do, the first is %q", len(lost), lost[0])
	}
}

// Without JavaScript the page is a table that can be filtered.
func plainWithoutScript(t *testing.T, s *shop) {
	t.Helper()
	l := desk
	l.noScript = true
	p := open(t, server(s.Live()[0]), l)
	p.wait(`location.search === "?view=plain"`)
	rows := `section:last-of-type tbody tr`
	p.wait(fmt.Sprintf(`document.querySelectorAll(%q).length === %d`, rows, shopTasks))
	p.click("input[name=q]")
	p.press("nightly-report" + kb.Enter)
	p.wait(`location.search.includes("q=nightly-report")`)
	p.wait(fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, rows))
	if text := p.text(rows); !strings.Contains(text, "reports/nightly-report") ||
		!strings.Contains(text, "exit status 3") {
		t.Errorf("the row is %q", text)
	}
}

// The policy lets nothing run that came from elsewhere, and no request leave for elsewhere.
func policyHolds(t *testing.T, s *shop) {
	t.Helper()
	live := s.Live()
	p := open(t, server(live[0]), desk)
	p.allow("Content Security Policy")
	p.allow("document requires 'Trusted")
	p.wait(`document.querySelector("#link").textContent === "live"`)
	// Functions that are made of text run under the page's policy, unlike what a debugger evaluates.
	for what, try := range map[string]string{
		"a script of text":       `document.body.append(Object.assign(document.createElement("script"), { text: "window.hacked = 1" }))`,
		"HTML of text":           `document.body.insertAdjacentHTML("beforeend", "<img src=x>")`,
		"code of text":           `setTimeout("window.hacked = 1", 0)`,
		"another replica's data": fmt.Sprintf(`fetch(%q)`, server(live[1])+"api/v1/status"),
	} {
		refused := eval[bool](p, `(async () => { try { await `+try+`; return false; } catch { return true; } })()`)
		if !refused || eval[bool](p, `"hacked" in window`) {
			t.Errorf("the policy allows %s", what)
		}
	}
}

// focusable is all that a keyboard has to reach: what can be seen and used. An element is known by where it leads or
// what it does, since the page replaces elements whose text changes.
const focusable = `[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) =>
	!e.disabled && e.checkVisibility({ visibilityProperty: true }) && !e.closest("dialog"))`

const known = `((e) => [e.tagName, e.id, e.getAttribute("href") ?? "", e.dataset.verb ?? "", e.dataset.name ?? "", e.className.split(" ")[0]].join(" "))`

func keyboardReachesAll(t *testing.T, s *shop) {
	t.Helper()
	p := open(t, admin(s.Live()[0]), look{width: 1280, height: 2400})
	p.whole(t)
	eval[bool](p, `window.unreached = new Set(`+focusable+`.map(`+known+`)), true`)
	all := eval[int](p, `unreached.size`)
	p.press(kb.Tab)
	if first := p.focused(); !strings.Contains(first, "Skip to the tasks") {
		t.Errorf("the first stop of the keyboard is %s", first)
	}
	for range 3 { // tasks change their states meanwhile: links come and go
		for range 2 * all {
			eval[bool](p, `unreached.delete(`+known+`(document.activeElement))`)
			p.press(kb.Tab)
		}
		there := `new Set(` + focusable + `.map(` + known + `))`
		if eval[int](p, `(window.unreached = unreached.intersection(`+there+`)).size`) == 0 {
			break
		}
	}
	if left := eval[[]string](p, `[...unreached]`); len(left) > 0 {
		t.Errorf("%d of %d cannot be reached by keyboard, the first is %s", len(left), all, left[0])
	}

	p.do(navigate(admin(s.Live()[0])))
	p.whole(t)
	p.slash()
	p.press("shard-07")
	p.wait(`document.querySelector("#found").textContent.startsWith("1 of")`)
	p.press(kb.Enter)
	p.wait(`document.querySelector("#one h2")?.textContent === "orders/shard-07"`)
	if focus := p.focused(); !strings.Contains(focus, "orders/shard-07") {
		t.Errorf("on the page of a task the focus is on %s", focus)
	}
	p.do(back())
	p.wait(`document.querySelector("#q").value === "shard-07"`)
	p.wait(`!document.querySelector("#overview").hidden`)

	p.do(navigate(admin(s.Live()[0])))
	p.whole(t)
	eval[bool](p, `document.querySelector("#tbody a").focus(), true`)
	p.press(kb.End)
	p.wait(`document.activeElement.textContent === "reports/nightly-report"`)
	p.press(kb.Home + kb.ArrowDown)
	p.wait(`document.activeElement.textContent === "jobs/migrate"`)
}

func (p *tab) focused() string {
	p.t.Helper()
	return eval[string](p, `document.activeElement.outerHTML.slice(0, 200)`)
}

// A link shows others the same, and Back leads to where one was.
func addressKeepsFilter(t *testing.T, s *shop) {
	t.Helper()
	p := open(t, server(s.Live()[0]), desk)
	p.whole(t)
	p.click("#q")
	p.press("shard")
	eval[bool](p, `(() => { const f = document.getElementById("f-instance"); f.value = "web-2"; f.dispatchEvent(new Event("change")); return true; })()`)
	p.wait(`location.search.includes("q=shard") && location.search.includes("instance=web-2")`)
	found := p.text("#found")
	p.do(navigate(server(s.Live()[0]) + p.address()))
	p.wait(fmt.Sprintf(`document.querySelector("#found").innerText === %q`, found))
	if q := eval[string](p, `document.getElementById("q").value`); q != "shard" {
		t.Errorf("after loading it again the filter is %q", q)
	}
	p.click("#tbody .row a.task")
	p.wait(`!document.querySelector("#one").hidden`)
	p.do(back())
	p.wait(fmt.Sprintf(
		`!document.querySelector("#overview").hidden && document.querySelector("#found").innerText === %q`, found,
	))
}
