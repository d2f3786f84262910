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

	"github.com/shardctl/shardctl/internal/cli"
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

// withApplications has one that is ready, one that has ended, one that is not known yet, and a replica that has ended.
func withApplications() *screen {
	s := sample(4)
	v := s.view
	v.Options.App = "python3 worker.py"
	v.Replicas[0].App = &api.Application{ID: "1", PID: 1005, Ready: true}
	v.Replicas[1].App = &api.Application{Message: "its command has ended: exit status 1"}
	v.Replicas[3] = Replica{Name: "r4", State: Dead, Why: "signal: killed"}
	return s
}

func TestScreen(t *testing.T) {
	for name, test := range map[string]struct {
		s             *screen
		width, height int
		colour        bool
	}{
		"calm":    {sample(5), 100, 24, false},
		"colour":  {sample(2), 100, 14, true},
		"narrow":  {sample(3), 50, 16, false},
		"trouble": {troubled(), 110, 26, false},
		"many":    {sample(50), 100, 24, false},
		"app":     {withApplications(), 100, 24, false},
		"small":   {troubled(), 100, 10, false},
		"start": {
			&screen{view: &View{Options: Defaults(), URL: "http://127.0.0.1:8080", Logs: "/tmp/x"}},
			100, 24,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := fits(t, test.s, test.width, test.height, test.colour)
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

// fits draws a screen, and fails where that has more lines or columns than the terminal.
func fits(t *testing.T, s *screen, width, height int, colour bool) string {
	t.Helper()
	lines := s.render(&cli.View{Now: epoch, Colour: colour, Width: width, Height: height})
	if len(lines) > height {
		t.Errorf("%d lines on %d", len(lines), height)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(attributes.ReplaceAllString(line, "")); n > width {
			t.Errorf("%d columns on %d: %q", n, width, line)
		}
	}
	return strings.Join(lines, "\n")
}

// A terminal of any size, down to one character, is drawn on.
func TestScreenFitsEverywhere(t *testing.T) {
	for width := 1; width < 120; width += 7 {
		for height := 1; height < 40; height++ {
			for _, s := range []*screen{sample(1), sample(50), troubled()} {
				fits(t, s, width, height, true)
			}
		}
	}
}

func TestOrderOfReplicas(t *testing.T) {
	all := sample(6).view.Replicas
	for i, state := range map[int]State{0: Dead, 2: Left, 4: Dead} {
		all[i].State, all[i].Ended = state, epoch.Add(time.Duration(i)*time.Second)
	}
	for lines, want := range map[int]string{7: "r1 r2 r3 r4 r5 r6", 6: "r2 r4 r6 r5 r3 r1", -1: "r2 r4 r6 r5 r3 r1"} {
		var names []string
		for _, r := range ordered(all, lines) {
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

// What tasks and replicas report moves nothing on the screen, nor where lines are printed.
func TestReportsHoldNoSequences(t *testing.T) {
	const evil = "\x1b]0;x\x07\x1b[2J\u009b\u202e\r\n"
	s := sample(2)
	s.view.Replicas[1] = Replica{Name: "r2" + evil, State: Dead, Why: "why" + evil}
	s.view.Tasks, s.view.Stale, s.view.Logs, s.view.URL = nil, "stale"+evil, "/logs"+evil, "http://h"+evil
	s.view.Problems = []Problem{{"Reason" + evil, "text" + evil, 2}}
	s.events = []event{{epoch, "event" + evil}}
	var b strings.Builder
	printer{&b}.show(nil, s.events)
	shown := strings.Join(s.render(&cli.View{Width: 300, Height: 40}), "") + strings.TrimSuffix(b.String(), "\n")
	for _, text := range []string{"r2", "why", "stale", "/logs", "http://h", "Reason", "text", "event"} {
		if !strings.Contains(shown, text) {
			t.Errorf("no %s on the screen", text)
		}
	}
	if strings.ContainsAny(shown, "\x1b\a\u009b\u202e\r\n") {
		t.Errorf("the screen obeys what is reported: %q", shown)
	}
}
