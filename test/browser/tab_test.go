//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// startChromium starts the browser that all tests share: $CHROMIUM, or one that is installed.
func startChromium(ctx context.Context, profile string) (stop func(), err error) {
	program, err := findChromium()
	if err != nil {
		return nil, err
	}
	// It leaves a directory here, with a socket: the name must be short.
	temporary, err := os.MkdirTemp("", "c")
	if err != nil {
		return nil, err
	}
	flags := append(
		chromedp.DefaultExecAllocatorOptions[:], chromedp.Env("TMPDIR="+temporary),
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", false), // as people see them
		chromedp.Flag("lang", "en-US"),
	)
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(ctx), flags...)
	browser, cancel := chromedp.NewContext(allocator)
	stop = func() {
		cancel()
		end()
		_ = os.RemoveAll(temporary) // nothing of the tests
	}
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	chromium = browser //nolint:fatcontext // it is set once
	return stop, nil
}

func findChromium() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "headless_shell"}
	if own := os.Getenv("CHROMIUM"); own != "" {
		names = []string{own}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium is installed: run `make page`, which provides one, or name it in CHROMIUM")
}

// look is how a reader looks at the page. The zero value is a desktop in light colours.
type look struct {
	width, height int64
	dark, phone   bool
	noScript      bool
	first         string // a script that runs before those of the page
}

var (
	desk  = look{width: 1280, height: 900}
	dark  = look{width: 1280, height: 900, dark: true}
	phone = look{width: 390, height: 844, phone: true}
	night = look{width: 390, height: 844, phone: true, dark: true}
)

// tab is one page in a browser context of its own. It is for one goroutine.
type tab struct {
	t        *testing.T
	ctx      context.Context
	noScript bool // of the page as it is shown: what a click meets is not known

	mu         sync.Mutex
	complaints []string // what came on the console that should not
	allowed    []string // parts of complaints that the test provokes
}

// open opens an address. The test fails when anything is complained about on the console before it ends.
func open(t *testing.T, url string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	if l.width == 0 {
		l.width, l.height = desk.width, desk.height
	}
	p.check(chromedp.Listen(ctx, p.note))
	p.emulate(l)
	if l.first != "" {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: l.first,
		})
		p.check(err)
	}
	t.Cleanup(p.quiet)
	p.do(chromedp.Navigate(url))
	return p
}

func (p *tab) emulate(l look) {
	p.t.Helper()
	var more []chromedp.EmulateViewportOption
	if l.phone {
		more = append(more, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	p.do(chromedp.EmulateViewport(l.width, l.height, more...))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	p.check(err)
	_, err = chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{
		Value: l.noScript,
	})
	p.check(err)
	p.noScript = l.noScript
}

// note keeps errors and warnings. The browser calls it before the reply to the command that caused them.
func (p *tab) note(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = "uncaught: " + e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			text += " " + o.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type != "error" && e.Type != "warning" && e.Type != "assert" {
			return
		}
		text = string(e.Type)
		for _, arg := range e.Args {
			text += " " + string(arg.Value) + arg.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError && e.Entry.Level != log.EntryLevelWarning {
			return
		}
		text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, text)
}

// allow lets complaints pass that have this part: the test provokes them.
func (p *tab) allow(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, part)
}

func (p *tab) quiet() {
	if p.ctx.Err() == nil {
		_ = chromedp.Do(p.ctx) // what was said before is noted
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.complaints {
		if !slices.ContainsFunc(p.allowed, func(part string) bool { return strings.Contains(text, part) }) {
			p.t.Errorf("on the console: %s", text)
		}
	}
}

// in lets a subtest go on with the tab of its parent, until out is called.
func (p *tab) in(t *testing.T) (out func()) {
	t.Helper()
	outer := p.t
	p.t = t
	return func() { p.t = outer }
}

func (p *tab) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// do runs actions of the browser, each within patience.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	p.check(chromedp.Do(ctx, actions...))
}

// eval is what a JavaScript expression gives, promises awaited. The page's own policy does not hold for it.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// wait waits until a JavaScript expression is true.
func (p *tab) wait(condition string) {
	p.t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
		if last = err; err == nil && ok { // an error: the page is on its way to another address
			return
		}
	}
	p.shot("failed")
	p.t.Fatalf("still not so after %v: %s (%v)\n%s", patience, condition, last, p.text("body"))
}

// text is what an element shows, "" when it is not there.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`(document.querySelector(%s)?.innerText ?? "")`, quote(selector)))
}

func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, fmt.Sprintf(`document.querySelectorAll(%s).length`, quote(selector)))
}

// click clicks with the mouse on the first element that a selector finds, once it is there. It aims at where the
// element is, as people do. A problem that appears above moves everything down, and the mouse then meets something
// else: such a click is taken from the page, and made again.
func (p *tab) click(selector string) {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		p.wait(fmt.Sprintf(`document.querySelector(%s)?.getClientRects().length > 0`, quote(selector)))
		at := eval[[]float64](p, fmt.Sprintf(`(() => {
			removeEventListener("click", window.meets, true);
			window.met = "nothing";
			window.meets = (event) => {
				removeEventListener("click", window.meets, true);
				window.met = event.target.closest(%[1]s) ? "it" : event.target.tagName;
				if (window.met !== "it") { event.preventDefault(); event.stopImmediatePropagation(); }
			};
			addEventListener("click", window.meets, true);
			const e = document.querySelector(%[1]s);
			e.scrollIntoView({ block: "nearest", behavior: "instant" });
			const box = e.getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2];
		})()`, quote(selector)))
		p.do(chromedp.MouseClickXY(at[0], at[1]))
		met, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`window.met ?? "it"`))
		if err != nil || met == "it" || p.noScript { // without an answer: the click has led to another address
			return
		}
		p.t.Logf("the click on %s met %s: again", selector, met)
	}
	p.t.Fatalf("no click on %s met it within %v", selector, patience)
}

// press sends keys to what has the focus.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// slash presses the key that leads to the search. A page that takes a key keeps it from being typed, which the driver
// respects only for keys that are sent with their text.
func (p *tab) slash() {
	p.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{
		input.DispatchKeyEventTypeKeyDown,
		input.DispatchKeyEventTypeKeyUp,
	} {
		event := input.DispatchKeyEventParams{Type: kind, Key: "/", Code: "Slash", WindowsVirtualKeyCode: 191}
		if kind == input.DispatchKeyEventTypeKeyDown {
			event.Text = "/"
		}
		_, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event)
		p.check(err)
	}
}

func (p *tab) address() string {
	p.t.Helper()
	return eval[string](p, `location.search`)
}

// quote is a text as JavaScript has it.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a form in JSON
	}
	return string(data)
}

// shot writes a screenshot of the whole page, if -look says where to.
func (p *tab) shot(name string) {
	p.t.Helper()
	if *lookTo == "" {
		return
	}
	data, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	p.check(err)
	p.check(os.MkdirAll(*lookTo, 0o750))
	p.check(os.WriteFile(filepath.Join(*lookTo, name+".png"), data, 0o600))
}

// navigate and back go to another address, and to the one before.
func navigate(url string) chromedp.Action[chromedp.Void] { return chromedp.Navigate(url) }
func back() chromedp.Action[chromedp.Void]               { return chromedp.NavigateBack() }
