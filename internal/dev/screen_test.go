package dev

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/api"
)

var update = flag.Bool("update", false, "write what the screen shows to testdata")

// sample is a cluster of n replicas with twenty tasks on each.
func sample(n int) *screen {
	v := &View{
		Options: Options{Replicas: n, Tasks: 20 * n, Cap: 30}, URL: "http://127.0.0.1:8080",
		Logs: "/tmp/shardctl-dev-1", Seen: true,
	}
	for i := range n {
		name := fmt.Sprintf("r%d", i+1)
		v.Replicas = append(v.Replicas, Replica{Name: name, State: Live, Guard: 1000 + 10*i, Worker: 1001 + 10*i})
		for j := range 20 {
			v.Tasks = append(
				v.Tasks, Task{Key: fmt.Sprintf("topics/topic-%03d", 20*i+j), Owner: name, State: api.Running},
			)
		}
	}
	s := &screen{view: v}
	for i := range 12 {
		s.events = append(s.events, event{epoch.Add(time.Duration(i) * time.Second), fmt.Sprintf("event %d", i)})
	}
	return s
}

func troubled() *screen {
	s := sample(5)
	v := s.view
	v.Replicas[1] = Replica{Name: "r2", State: Dead, Why: "signal: killed"} // still owns its tasks
	v.Replicas[2] = Replica{Name: "r3", State: Dead, Why: "its worker: signal: killed"}
	v.Replicas[3].State = Leaving
	v.Replicas[4].Worker = 0
	for i := range v.Tasks {
		switch {
		case v.Tasks[i].Owner == "r3":
			v.Tasks[i] = Task{Key: v.Tasks[i].Key, State: api.Unassigned, Full: true}
		case i >= 90:
			v.Tasks[i].State = api.Starting
		}
	}
	v.Problems = []Problem{
		{"NoCapacity", "20 of 100 tasks have no owner: raise the cap or add replicas", 1},
		{"TaskFailing", "topic-001 fails", 7},
		{"A", "a", 1},
		{"B", "b", 1},
		{"C", "c", 1},
	}
	v.Stale = "no replica answers: connection refused"
	s.typed = 4
	return s
}

func TestScreen(t *testing.T) {
	for name, test := range map[string]struct {
		s      *screen
		at     size
		colour bool
	}{
		"calm":    {sample(5), size{100, 24}, false},
		"colour":  {sample(2), size{100, 14}, true},
		"narrow":  {sample(3), size{50, 16}, false},
		"trouble": {troubled(), size{110, 26}, false},
		"many":    {sample(50), size{100, 24}, false},
		"small":   {troubled(), size{100, 10}, false},
		"start": {
			&screen{view: &View{Options: Defaults(), URL: "http://127.0.0.1:8080", Logs: "/tmp/x"}},
			size{100, 24},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.s.render(test.at, test.colour)
			fits(t, got, test.at)
			file := filepath.Join("testdata", "screen-"+name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got+"\n" != string(want) {
				t.Errorf("the screen differs from %s (go test -update writes it again):\n%s", file, got)
			}
		})
	}
}

var attributes = regexp.MustCompile("\x1b\\[[0-9]+m")

func fits(t *testing.T, text string, at size) {
	t.Helper()
	rows := strings.Split(attributes.ReplaceAllString(text, ""), "\n")
	if len(rows) > at.height {
		t.Errorf("%d lines on %d", len(rows), at.height)
	}
	for _, row := range rows {
		if n := utf8.RuneCountInString(row); n > at.width {
			t.Errorf("%d columns on %d: %q", n, at.width, row)
		}
	}
}

// A terminal of any size, down to one character, is drawn on.
func TestScreenFitsEverywhere(t *testing.T) {
	for width := 1; width < 120; width += 7 {
		for height := 1; height < 40; height++ {
			for _, s := range []*screen{sample(1), sample(50), troubled()} {
				fits(t, s.render(size{width, height}, true), size{width, height})
			}
		}
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		owned, running, limit, free int
		want                        string
	}{
		{3, 2, 5, 100, "██▒··"},
		{0, 0, 5, 100, "·····"},
		{5, 5, 5, 100, "█████"},
		{1, 1, 1000, 20, "█···················"}, // what is there shows
		{999, 999, 1000, 20, "████████████████████"},
		{31, 31, 30, 10, "██████████"}, // never, but no panic
	} {
		var b strings.Builder
		bar(test.owned, test.running, test.limit, test.free).paint(&b, 200, false)
		if b.String() != test.want {
			t.Errorf("%+v: got %q", test, b.String())
		}
	}
}

func TestChosenReplicas(t *testing.T) {
	all := sample(6).view.Replicas
	all[0].State, all[2].State, all[4].State = Dead, Left, Dead
	for lines, want := range map[int]string{
		9: "r1 r2 r3 r4 r5 r6", 6: "r1 r2 r3 r4 r5 r6", 5: "r2 r4 r5 r6", 4: "r2 r4 r6", 3: "r2 r4", 1: "", 0: "",
		-1: "",
	} {
		var names []string
		for _, r := range chosen(all, lines) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("on %d lines: got %q, want %q", lines, got, want)
		}
	}
}

func TestLinesBeginWithTheTime(t *testing.T) {
	var b strings.Builder
	printer{&b}.show(nil, []event{{epoch, "r1 died"}, {epoch.Add(time.Second), "r2 left"}})
	if b.String() != "03:04:05 r1 died\n03:04:06 r2 left\n" {
		t.Errorf("got %q", b.String())
	}
}
