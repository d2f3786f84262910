package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
	"github.com/shardctl/shardctl/test/viewtest"
)

const commanded = `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
groups:
  - name: g
    tasks:
      - {name: "t{1..3}", exec: {command: [date]}}
      - {name: tick, every: 1h, exec: {command: [date]}}
`

// TestCommandsAgainstAModel plays commands to replicas that have seen less than the store has, and to the store itself:
// while it is away, while its answers are lost, while overrides end and tasks move. What a command says must be so.
func TestCommandsAgainstAModel(t *testing.T) {
	s := viewtest.Load(t, commanded)
	rapid.Check(t, func(t *rapid.T) {
		p := newCommandPlay(s)
		defer p.close()
		t.Repeat(map[string]func(*rapid.T){
			"command":         p.command,
			"command again":   p.command, // more often than what follows
			"read":            p.read,
			"a replica looks": func(t *rapid.T) { p.desk(t).look() },
			"a task starts":   p.start,
			"a task ends":     p.end,
			"time passes":     p.pass,
			"an instance joins": func(*rapid.T) {
				p.join("d", record.Live)
			},
			"the store goes or comes": func(*rapid.T) {
				p.away = !p.away
				for _, d := range p.desks {
					d.publish(p.away)
				}
			},
			"an answer is lost": func(*rapid.T) { p.lose = true },
		})
	})
}

// command is one line that an operator types.
type command struct {
	verb   api.Verb
	kind   record.OverrideKind
	scope  record.Scope
	names  []string
	to     string
	strict bool
	lasts  time.Duration
	dry    bool
}

// overrideOf has the verbs that are tried, and the kinds of their overrides.
var overrideOf = map[api.Verb]record.OverrideKind{
	api.Pause: record.OverridePause, api.Resume: record.OverridePause, api.Pin: record.OverridePin,
	api.Unpin: record.OverridePin, api.Drain: record.OverrideDrain, api.Undrain: record.OverrideDrain,
	api.Cordon: record.OverrideCordon, api.Uncordon: record.OverrideCordon, api.Restart: record.OverrideRestart,
	api.Rerun: record.OverrideRerun, api.Trigger: record.OverrideTrigger, api.Move: record.OverrideMove,
}

// tried are those of the verbs that may be about such objects.
func tried(scope record.Scope) []api.Verb {
	return verbs.Names(func(v verbs.Verb) bool { return v.About(scope) && overrideOf[v.Name] != "" })
}

func drawCommand(t *rapid.T) command {
	c := command{scope: rapid.SampledFrom([]record.Scope{
		record.ScopeTask, record.ScopeTask, record.ScopeTask, record.ScopeGroup, record.ScopeInstance,
	}).Draw(t, "about")}
	switch c.scope {
	case record.ScopeGroup:
		c.verb, c.names = rapid.SampledFrom([]api.Verb{api.Pause, api.Resume}).Draw(t, "verb"), []string{"g"}
	case record.ScopeInstance:
		c.verb = rapid.SampledFrom(tried(record.ScopeInstance)).Draw(t, "verb")
		c.names = []string{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "instance")}
	default:
		c.verb = rapid.SampledFrom(tried(record.ScopeTask)).Draw(t, "verb")
		c.names = slices.Sorted(slices.Values(rapid.SliceOfNDistinct(
			rapid.SampledFrom([]string{"g/t1", "g/t2", "g/tick"}), 1, 2, rapid.ID[string],
		).Draw(t, "tasks")))
	}
	c.kind = overrideOf[c.verb]
	if c.verb == api.Pin || c.verb == api.Move {
		c.to = rapid.SampledFrom([]string{"a", "b", "d"}).Draw(t, "to")
	}
	c.strict = c.verb == api.Pin && rapid.Bool().Draw(t, "strict")
	if slices.Contains([]api.Verb{api.Pause, api.Pin, api.Drain, api.Cordon}, c.verb) && rapid.Bool().Draw(t, "for") {
		c.lasts = 90 * time.Second
	}
	c.dry = rapid.IntRange(0, 4).Draw(t, "dry run") == 0
	return c
}

func (c command) args() []string {
	args := []string{string(c.verb)}
	if c.scope == record.ScopeGroup {
		args = append(args, "-g")
	}
	args = append(args, c.names...)
	for flag, given := range map[string]bool{
		"--strict": c.strict, "--dry-run": c.dry, "--for=90s": c.lasts > 0, "--wait=false": c.verb == api.Drain,
	} {
		if given {
			args = append(args, flag)
		}
	}
	if c.to != "" {
		args = append(args, c.to)
	}
	return args
}

// What a command may say of a name.
const (
	itChanged   = "changed"
	itUnchanged = "unchanged"
	itRefused   = "refused"
)

// due is what the command has to say of a name, by what the store has.
func (c command) due(w world, name string) string {
	before, stands := w.stands(c.kind, c.scope, name)
	lock := w.Lock(elect.Key(name))
	owner := w.session(lock.Session)
	pending := stands && before.Token == lock.Token && lock.Token > 0
	_, taskPaused := w.stands(record.OverridePause, record.ScopeTask, name)
	_, groupPaused := w.stands(record.OverridePause, record.ScopeGroup, "g")
	refusedIf, same := false, stands && before.To == c.to && before.Strict == c.strict && before.Until == 0 &&
		c.lasts == 0
	switch c.verb {
	case api.Resume, api.Unpin, api.Undrain, api.Uncordon:
		if stands {
			return itChanged
		}
		refusedIf = c.scope == record.ScopeInstance && !w.instance(name) ||
			c.verb == api.Resume && c.scope == record.ScopeTask && groupPaused
		same = true
	case api.Drain, api.Cordon:
		refusedIf = !stands && !w.instance(name)
	case api.Restart:
		refusedIf, same = owner == nil || lock.Status.State != "running", pending
	case api.Rerun:
		refusedIf, same = lock.Status.Outcome == nil, pending
	case api.Trigger:
		refusedIf, same = name != "g/tick" || taskPaused || groupPaused, false
	case api.Move:
		target := w.session(strings.ToUpper(c.to))
		_, drained := w.stands(record.OverrideDrain, record.ScopeInstance, c.to)
		_, cordoned := w.stands(record.OverrideCordon, record.ScopeInstance, c.to)
		pin, pinned := w.stands(record.OverridePin, record.ScopeTask, name)
		there := target != nil && target.ID == lock.Session
		refusedIf = taskPaused || groupPaused || owner == nil || target == nil ||
			!there && (drained || cordoned || pinned && pin.Strict && pin.To != c.to)
		same = pending && before.To == c.to || there && !pending
	default: // pause and pin can always be
	}
	switch {
	case refusedIf:
		return itRefused
	case same:
		return itUnchanged
	}
	return itChanged
}

// command asks a replica, or writes to the store, and holds that all is as the command says and nothing else.
func (p *commandPlay) command(t *rapid.T) {
	c, where := drawCommand(t), []string{"--config", "x.yaml"}
	if i := rapid.IntRange(0, len(p.desks)).Draw(t, "asked"); i < len(p.desks) {
		where = []string{"--server", p.desks[i].server.URL}
	}
	before := p.world()
	line := c.args()
	out, errs, code := p.shardctl(append(line, where...)...)
	after := p.world()
	said := fmt.Sprintf("%s %s: code %d\n%s%s", strings.Join(line, " "), where[0], code, out, errs)
	if p.away {
		if code == 0 || out != "" {
			t.Fatalf("the store is away, and %s", said)
		}
		p.wantKept(t, before, after, nil, said)
		return
	}
	changed, refused := []string{}, false
	for _, name := range c.names {
		due := c.due(before, name)
		got := itRefused
		for line := range strings.Lines(out) {
			if about, ok := strings.CutPrefix(line, string(c.scope)+" "+name+" "); ok {
				got = itChanged
				if strings.HasPrefix(about, itUnchanged) {
					got = itUnchanged
				}
			}
		}
		if got == itRefused && !strings.Contains(errs, name) {
			t.Fatalf("nothing is said of %s: %s", name, said)
		}
		if got != due {
			t.Fatalf("%s, want it %s: %s", name, due, said)
		}
		refused = refused || got == itRefused
		if got == itChanged && !c.dry {
			changed = append(changed, record.Override{Kind: c.kind, Scope: c.scope, Name: name}.ID())
			c.wantDone(t, after, name, p.now, said)
		}
	}
	if noted := after.events - before.events; noted != len(changed) {
		t.Fatalf("%d events: %s", noted, said)
	}
	if refused == (code == 0) {
		t.Fatalf("a refusal and the exit code: %s", said)
	}
	p.wantKept(t, before, after, changed, said)
}

// wantDone wants what was asked for of a name to be so.
func (c command) wantDone(t *rapid.T, after world, name string, now time.Time, said string) {
	o, stands := after.stands(c.kind, c.scope, name)
	until := int64(0)
	if c.lasts > 0 {
		until = now.Add(c.lasts).UnixMilli()
	}
	switch c.verb {
	case api.Resume, api.Unpin, api.Undrain, api.Uncordon:
		if stands {
			t.Fatalf("%+v still stands: %s", o, said)
		}
		return
	case api.Restart, api.Rerun, api.Move:
		if token := after.Lock(elect.Key(name)).Token; o.Token != token {
			t.Fatalf("for token %d, and %s has %d: it has no effect: %s", o.Token, name, token, said)
		}
	default:
	}
	if !stands || o.To != c.to || o.Strict != c.strict || o.Until != until {
		t.Fatalf("%+v, %t, want it until %d: %s", o, stands, until, said)
	}
}

// wantKept wants all overrides as they were but those that were changed.
func (p *commandPlay) wantKept(t *rapid.T, before, after world, changed []string, said string) {
	for id := range before.overrides {
		if !slices.Contains(changed, id) && before.overrides[id] != after.overrides[id] {
			t.Fatalf("%s was %+v, and is %+v: %s", id, before.overrides[id], after.overrides[id], said)
		}
	}
	for id := range after.overrides {
		if _, was := before.overrides[id]; !was && !slices.Contains(changed, id) {
			t.Fatalf("%s was not asked for: %s", id, said)
		}
	}
}

// read lists what people have changed, and waits for a task: as the store has it, or said to be stale.
func (p *commandPlay) read(t *rapid.T) {
	d := p.desk(t)
	d.look()
	fail := rapid.Bool().Draw(t, "stale=fail")
	args := []string{"get", "overrides", "-o", "json", "--server", d.server.URL}
	if fail {
		args = append(args, "--stale=fail")
	}
	out, errs, code := p.shardctl(args...)
	var list api.List[api.Override]
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	if stale := strings.Contains(errs, "stale:"); stale != p.away || list.Stale != p.away ||
		(code == 3) != (p.away && fail) {
		t.Fatalf("away %t: code %d, %s%s", p.away, code, out, errs)
	}
	name := drawTask(t)
	_, errs, code = p.shardctl("wait", "--for=running", string(name), "--timeout=0", "--server", d.server.URL)
	w := p.world()
	if p.away {
		if code != 3 {
			t.Fatalf("wait for %s while the store is away: code %d, %s", name, code, errs)
		}
		return
	}
	for _, o := range list.Items {
		if _, stands := w.stands(record.OverrideKind(o.Kind), record.Scope(o.Scope), o.Name); !stands {
			t.Fatalf("%+v is listed, and does not stand", o)
		}
	}
	for _, o := range w.overrides {
		listed := slices.ContainsFunc(list.Items, func(l api.Override) bool {
			return l.Kind == string(o.Kind) && l.Name == o.Name
		})
		if over := o.Scope == record.ScopeTask && o.Over(w.Lock(elect.Key(o.Name))); listed == over {
			t.Fatalf("%+v: listed %t, over %t", o, listed, over)
		}
	}
}

// shardctl runs a command line as the program does.
func (p *commandPlay) shardctl(args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "shardctl", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(cli.Commands(p.globals())...)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = cli.Report(&stderr, root.ExecuteContext(context.Background()))
	return stdout.String(), stderr.String(), code
}
