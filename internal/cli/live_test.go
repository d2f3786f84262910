package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// lively is the sample as `status -w` follows it.
func lively() *live {
	s := sample()
	var l live
	l.status = &s.Status
	l.ofInstances(&client.Change[api.Instance]{Kind: client.Snapshot, Items: s.Instances})
	l.ofEvents(&client.Change[api.Event]{Kind: client.Snapshot, Items: happened})
	return &l
}

func TestLiveScreen(t *testing.T) {
	const lost = "Not connected to http://127.0.0.1:8081 for 3s; trying again"
	added := lively()
	added.say(epoch, "c started: guard 10, worker 11")
	b := added.instances["s-b"]
	b.Application = &api.Application{PID: 4711, Ready: true}
	added.instances["s-b"] = b
	early := new(live)
	early.say(epoch, "the page is on http://127.0.0.1:8080")
	many := lively()
	for i := range 200 {
		name := fmt.Sprintf("web-%03d", i)
		many.instances[name] = api.Instance{
			Name: name, State: api.Live, Owned: api.Counts{"topics": i % 21}, Caps: api.Counts{"topics": 20},
		}
	}
	for file, c := range map[string]struct {
		l             *live
		width, height int
		lost          string
		foot          []string
	}{
		"live.txt":        {lively(), 110, 30, "", nil},
		"live-narrow.txt": {lively(), 48, 20, "", nil},
		"live-many.txt":   {many, 100, 24, "", nil},
		"live-lost.txt":   {lively(), 100, 24, lost, nil},
		"live-foot.txt":   {added, 130, 24, "", []string{"k kill -9  q quit   acts on c", "logs in /tmp/shardctl-dev-1"}},
		"live-early.txt":  {early, 100, 10, lost, []string{"k kill -9  q quit   acts on none"}},
	} {
		got := renderLive(c.l, &surface{Now: epoch, Width: c.width}, c.height, c.lost, c.foot)
		if len(got) > c.height {
			t.Errorf("%s: %d lines of %d", file, len(got), c.height)
		}
		for _, row := range got {
			if text.StringWidthWithoutEscSequences(row) > c.width {
				t.Errorf("%s: too wide: %s", file, row)
			}
		}
		golden(t, file, strings.Join(got, "\n")+"\n")
	}
}

// TestLiveLines holds what is printed of changes where there is no terminal.
func TestLiveLines(t *testing.T) {
	var out strings.Builder
	d := &liveLines{globals: globals(), w: &out}
	l := lively()
	if err := d.show(l, nil); err != nil {
		t.Fatal(err)
	}
	first := out.Len()
	if err := d.show(l, nil); err != nil || out.Len() != first {
		t.Errorf("nothing has changed: %v\n%s", err, out.String()[first:])
	}
	next := sample()
	next.Status.Groups[0].Running, next.Status.Groups[0].Starting = 3, 0
	next.Status.Problems = next.Status.Problems[:1]
	l.status = &next.Status
	b := l.instances["s-b"]
	b.State, b.Message = api.Dead, "no heartbeat for 20 s"
	l.ofInstances(&client.Change[api.Instance]{Kind: client.Upsert, Items: []api.Instance{b}})
	more := []api.Event{
		{
			ID: "4", Time: ago(2 * time.Second), Type: "Moved", Reason: "Drain", Key: "topics/topic-003", From: "b",
			To: "a", By: "ann", Message: "new kernel",
		},
		{ID: "5", Time: ago(time.Second), Type: "Released", Reason: "Paused", Key: "topics/topic-004", From: "b"},
		{ID: "6", Time: ago(0), Type: "Died", From: "b", Message: "no heartbeat for 20 s"},
		{ID: "7", Time: ago(0), Type: "LeaseLost", From: "b"},
	}
	var happened []news
	for _, e := range more {
		happened = append(
			happened, l.ofEvents(&client.Change[api.Event]{Kind: client.Upsert, Items: []api.Event{e}})...,
		)
	}
	if again := l.ofEvents(&client.Change[api.Event]{Kind: client.Upsert, Items: more}); len(again) != 0 {
		t.Errorf("reported twice: %v", again)
	}
	if err := d.show(l, happened); err != nil {
		t.Fatal(err)
	}
	golden(t, "live-lines.txt", out.String())
}

// TestLiveLinesFromTheStart holds that without a screen at first all that is there is printed as a change.
func TestLiveLinesFromTheStart(t *testing.T) {
	var out strings.Builder
	d := &liveLines{globals: globals(), w: &out, early: true}
	var l live
	if err := d.show(&l, l.say(epoch, "the page is on http://127.0.0.1:8080")); err != nil {
		t.Fatal(err)
	}
	known := lively()
	a := known.instances["s-a"]
	a.Application = &api.Application{PID: 4711, Ready: true}
	known.instances["s-a"] = a
	for range 2 {
		if err := d.show(known, nil); err != nil {
			t.Fatal(err)
		}
	}
	a.Application = &api.Application{PID: 4712}
	known.instances["s-a"] = a
	if err := d.show(known, known.say(epoch, "")); err != nil {
		t.Fatal(err)
	}
	golden(t, "live-start.txt", out.String())
}

// TestLiveScreenIsLeft holds that the screen is drawn only when it has changed, and that the terminal is given back.
func TestLiveScreenIsLeft(t *testing.T) {
	var out strings.Builder
	g := globals()
	d := &liveScreen{openScreen(&out), g, &link{globals: g, url: "http://a"}, nil}
	for range 2 {
		if err := d.show(lively(), nil); err != nil {
			t.Fatal(err)
		}
	}
	d.close()
	got := out.String()
	if !strings.HasPrefix(got, enterScreen+cursorHome) || !strings.HasSuffix(got, clearRest+leaveScreen) ||
		strings.Count(got, cursorHome) != 1 {
		t.Errorf("%q", got)
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		well, other, whole int
		want               string
	}{
		{2, 1, 5, "████████▒▒▒▒········"},
		{0, 0, 5, "····················"},
		{5, 0, 5, "████████████████████"},
		{1, 0, 1000, "█···················"}, // what is there shows
		{31, 0, 30, "████████████████████"},  // never, but no panic
		{1, 0, 0, ""},
	} {
		if got := (&surface{}).bar(test.well, test.other, test.whole); got != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}
