//go:build linux

package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

// tokens are those of the shop; each has a role of its own.
const (
	adminToken   = "alice-alice-alice-alice"
	operateToken = "claire-claire-claire"
	readToken    = "robert-robert-robert"
	tokenFile    = "alice " + adminToken + " admin\nclaire " + operateToken + " operate\nbob " + readToken + " read\n"
)

// verbsOn are the changes that the page offers.
func (p *tab) verbsOn() []string {
	p.t.Helper()
	return eval[[]string](p, `[...new Set([...document.querySelectorAll("button[data-what]")]
		.map((b) => b.dataset.what + " " + b.dataset.verb))].sort()`)
}

// Where tokens are asked for, the page reads without one, and offers changes with one.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := newShop(t, tokenFile)
	r := s.Live()[0]
	p := open(t, admin(r), desk)
	p.listed()
	if verbs := p.verbsOn(); len(verbs) > 0 {
		t.Errorf("without a token it offers %v", verbs)
	}
	p.do(navigate(admin(r) + "?task=mail/ping"))
	p.allow("401") // the browser notes each refusal
	p.click(`button[data-verb=output]`)
	p.wait(`document.querySelector("#one pre").innerText.includes("needs a token")`)

	p.give(readToken)
	// It is asked for again: its first line may come after the first click.
	p.wait(`document.querySelector("#one pre").innerText.includes("pong") ||
		(document.querySelector("button[data-verb=output]").click(), false)`)
	if kept := eval[string](p, `sessionStorage.getItem("shardctl-token")`); kept != readToken {
		t.Errorf("the tab keeps the token as %q", kept)
	}
	if kept := eval[string](p, `JSON.stringify(localStorage) + document.cookie`); strings.Contains(kept, readToken) {
		t.Errorf("the token is kept for longer: %s", kept)
	}
	p.offeredByRole(admin(r))

	p.allow("401")
	p.give("wrong-wrong-wrong-wrong")
	p.wait(`document.querySelector("#token").innerText.includes("Give a token")`) // it was refused, and is forgotten
	p.give(adminToken)
	p.wait(`document.querySelector("button[data-verb=cordon]")`)
	p.accessible("token-given")
	want := []string{"groups pause", "groups rebalance", "instances cordon", "instances drain"}
	if got := p.verbsOn(); !slices.Equal(got, want) {
		t.Errorf("with a token it offers %v, want %v", got, want)
	}

	other := open(t, server(r), desk)
	other.listed()
	if verbs := other.verbsOn(); len(verbs) > 0 {
		t.Errorf("the listener that only reads offers %v", verbs)
	}
	if kept := eval[string](other, `sessionStorage.getItem("shardctl-token") ?? ""`); kept != "" {
		t.Errorf("another tab has the token %q", kept)
	}
}

// offeredByRole checks that the page offers what the role of a token allows, and says so. It begins with the one that
// only reads.
func (p *tab) offeredByRole(page string) {
	p.t.Helper()
	p.do(navigate(page))
	p.listed()
	p.wait(`document.querySelector("#who").innerText === "bob may read, and change nothing"`)
	p.accessible("token-reads")
	if got := p.verbsOn(); len(got) > 0 {
		p.t.Errorf("to a token that reads it offers %v", got)
	}
	p.give(operateToken)
	p.wait(`document.querySelector("#who").innerText.startsWith("claire may trigger, ")`)
	p.wait(`document.querySelector("button[data-verb=pause]")`)
	if got, want := p.verbsOn(), []string{"groups pause"}; !slices.Equal(got, want) {
		p.t.Errorf("to a token that operates it offers %v, want %v", got, want)
	}
	p.do(navigate(page + "?task=orders/shard-03"))
	p.wait(`document.querySelector("button[data-verb=restart]")`)
	if got, want := p.verbsOn(), []string{"tasks pause", "tasks restart"}; !slices.Equal(got, want) {
		p.t.Errorf("of a task that runs, to a token that operates it offers %v, want %v", got, want)
	}
	p.wait(`document.querySelector("#one").innerText.includes("does not allow to pin, move")`)
	p.do(navigate(page))
	p.listed()
}

// give types a token into its dialog.
func (p *tab) give(token string) {
	p.t.Helper()
	p.click("#token")
	p.wait(`document.querySelector("#key").open`)
	p.accessible("token")
	p.press(token)
	p.click("#key-form button[type=submit]")
	p.wait(`!document.querySelector("#key").open`)
}

// Each change is shown with what it would do before it is asked for, and can be taken back.
func TestChangesAreConfirmed(t *testing.T) {
	t.Parallel()
	s := newShop(t, "")
	live := s.Live()
	p := open(t, admin(live[0]), desk)
	p.listed()
	t.Run("drain", func(t *testing.T) {
		defer p.in(t)()
		p.drainAndBack(t, live[0])
	})
	t.Run("pause a group", func(t *testing.T) {
		defer p.in(t)()
		p.ask("groups", "orders", "pause")
		p.confirm("maintenance")
		p.wait(`document.querySelector("#groups").innerText.includes("maintenance")`)
		p.ask("groups", "orders", "resume")
		p.confirm("")
		p.wait(`!document.querySelector("#groups").innerText.includes("maintenance")`)
	})
	t.Run("a task", func(t *testing.T) {
		defer p.in(t)()
		p.changeTask(t, live[0])
	})
}

func (p *tab) drainAndBack(t *testing.T, r *harness.Replica) {
	t.Helper()
	allOwned(t, r, "orders")
	p.ask("instances", "web-2", "drain")
	p.wait(`document.querySelector("#ask-preview").innerText.startsWith("Would move ")`)
	p.accessible("ask-drain")
	if text := p.text("#ask-preview"); !strings.Contains(text, "web-2 → web-1") &&
		!strings.Contains(text, "web-2 → none") {
		t.Errorf("the dry run is shown as %q", text)
	}
	p.click("#ask-no")
	p.wait(`!document.querySelector("#ask").open`)
	if focus := p.focused(); !strings.Contains(focus, "drain web-2") {
		t.Errorf("after Cancel the focus is on %s", focus)
	}
	if state := stateOf(t, r, "web-2"); state != "live" {
		t.Errorf("after Cancel web-2 is %s", state)
	}
	p.ask("instances", "web-2", "drain")
	p.confirm("a new kernel")
	p.wait(`document.querySelector("#instances").innerText.includes("draining")`)
	p.wait(`document.querySelector("#instances").innerText.includes("a new kernel")`)
	p.accessible("drained")
	p.ask("instances", "web-2", "undrain")
	p.confirm("")
	p.wait(`!document.querySelector("#instances").innerText.includes("draining")`)
	p.wait(`document.querySelector("#events").innerText.includes("a new kernel")`)
}

// allOwned waits until each task of a group has an owner: before that, a drain would move them from none.
func allOwned(t *testing.T, r *harness.Replica, group string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		tasks, err := r.Client.Tasks(ctx)
		if err != nil {
			return err
		}
		for _, task := range tasks {
			if strings.HasPrefix(task.Key, group+"/") && task.Instance == "" {
				return fmt.Errorf("%s has no owner", task.Key)
			}
		}
		return nil
	})
}

func stateOf(t *testing.T, r *harness.Replica, name string) string {
	t.Helper()
	all, err := r.Client.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(i harness.Instance) bool { return i.Name == name })
	if i < 0 {
		return ""
	}
	return all[i].State
}

func (p *tab) changeTask(t *testing.T, r *harness.Replica) {
	t.Helper()
	const key = "orders/shard-03"
	p.do(navigate(admin(r) + "?task=" + key))
	p.wait(`document.querySelector("button[data-verb=restart]")`) // it runs again
	want := []string{"tasks move", "tasks pause", "tasks pin", "tasks restart"}
	if got := p.verbsOn(); !slices.Equal(got, want) {
		t.Errorf("for a task that runs it offers %v, want %v", got, want)
	}
	from := taskOf(t, r, key)
	to := map[string]string{"web-1": "web-2", "web-2": "web-1"}[from.Instance]

	p.ask("tasks", key, "pin")
	p.press("nowhere")
	p.press("\t")
	p.wait(`document.querySelector("#ask-preview").innerText + document.querySelector("#ask-error").innerText`)
	p.accessible("ask-pin")
	p.click("#ask-no")

	p.ask("tasks", key, "move")
	p.press(to + "\t")
	p.wait(fmt.Sprintf(`document.querySelector("#ask-preview").innerText.includes("%s → %s")`, from.Instance, to))
	p.confirm("closer to its data")
	p.wait(fmt.Sprintf(`document.querySelector("#one .facts").innerText.includes("closer to its data")
		&& document.querySelector("#one .facts a[href='?instance=%s']")`, to))
	p.wait(`document.querySelector("#one .events").innerText.includes("closer to its data")`)
	p.accessible("moved")
}

func taskOf(t *testing.T, r *harness.Replica, key string) (found harness.Task) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		tasks, err := r.Client.Tasks(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(tasks, func(task harness.Task) bool { return task.Key == key && task.Instance != "" })
		if i < 0 {
			return fmt.Errorf("%s has no owner", key)
		}
		found = tasks[i]
		return nil
	})
	return found
}

// ask opens the dialog of a change.
func (p *tab) ask(what, name, verb string) {
	p.t.Helper()
	p.click(fmt.Sprintf(`button[data-what=%s][data-name=%s][data-verb=%s]`, what, quote(name), verb))
	p.wait(`document.querySelector("#ask").open`)
}

// confirm gives the reason, and asks for the change.
func (p *tab) confirm(reason string) {
	p.t.Helper()
	if reason != "" {
		p.click("#ask-reason")
		p.press(reason)
	}
	p.click("#ask-yes")
	p.wait(`!document.querySelector("#ask").open`)
}
