package cli

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// lines passes on what a command writes, line by line.
type lines struct {
	mu   sync.Mutex
	rest string
	ch   chan string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest += string(b)
	for {
		line, rest, found := strings.Cut(l.rest, "\n")
		if !found {
			return len(b), nil
		}
		l.rest = rest
		l.ch <- line
	}
}

func (l *lines) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-l.ch:
		return line
	case <-time.After(time.Minute):
		t.Fatal("no line came")
		return ""
	}
}

func TestGetWatches(t *testing.T) {
	b := board(sample())
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &lines{ch: make(chan string, 100)}, make(chan error, 1)
	cmd := root0(globals())
	cmd.SetArgs([]string{"get", "tasks", "topics/topic-00[15]", "-w", "--server", replica(t, b)})
	cmd.SetOut(out)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	const now = "03:04:05   "
	for _, want := range []string{
		"TIME       TASK", now + "topics/topic-001   running",
		now + "topics/topic-005   unassigned",
	} {
		if got := out.next(t); !strings.HasPrefix(got, want) {
			t.Errorf("got %q", got)
		}
	}
	next := sample()
	next.Tasks.All()[1].Restarts = 3 // topic-001
	next.Tasks.All()[2].Restarts = 3 // not asked for
	next.Tasks = snapshot.Listed(next.Tasks.All()[:5])
	b.Publish(next)
	if got := out.next(t); !strings.HasPrefix(got, now+"topics/topic-001   running") || !strings.Contains(got, " 3 ") {
		t.Errorf("got %q", got)
	}
	if got := out.next(t); !strings.HasPrefix(got, now+"topics/topic-005   removed") {
		t.Errorf("got %q", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStatusWatches(t *testing.T) {
	b := board(sample())
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &lines{ch: make(chan string, 1000)}, make(chan error, 1)
	cmd := root0(globals())
	cmd.SetArgs([]string{"status", "-w", "--server", replica(t, b)})
	cmd.SetOut(out)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	until := func(want string) {
		for !strings.Contains(out.next(t), want) {
			continue
		}
	}
	until("NoHeadroom")
	next := sample()
	next.Status.Problems[0].Message = "quite another thing"
	b.Publish(next)
	until("quite another thing")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// watching runs a command that watches, and returns what ends it.
func watching(t *testing.T, out *lines, args ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	cmd := root0(globals())
	cmd.SetArgs(args)
	cmd.SetOut(out)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// What operators ask for and take back is shown as it happens, and so are problems.
func TestOverridesAndProblemsAreWatched(t *testing.T) {
	b := board(sample())
	server := replica(t, b)
	overrides, problems := &lines{ch: make(chan string, 100)}, &lines{ch: make(chan string, 100)}
	defer watching(t, overrides, "get", "overrides", "-g", "jobs", "-w", "--server", server)()
	defer watching(t, problems, "get", "problems", "-w", "--server", server)()
	expect := func(out *lines, words ...string) {
		t.Helper()
		line := out.next(t)
		for _, word := range words {
			if !strings.Contains(line, word) {
				t.Errorf("got %q, want %q in it", line, words)
			}
		}
	}
	expect(overrides, "KIND")
	expect(overrides, "pause ", "jobs", "in 120m")
	expect(problems, "SEVERITY")
	expect(problems, "error", "NoCapacity")
	expect(problems, "warning", "NoHeadroom")
	next := sample()
	next.Overrides = append(next.Overrides[:0:0], next.Overrides...)
	next.Overrides = slices.DeleteFunc(next.Overrides, func(o api.Override) bool { return o.Name == "jobs" })
	next.Overrides = append(next.Overrides, api.Override{Kind: "pin", Scope: "task", Name: "jobs/nightly", To: "b"})
	next.Status.Problems = append(next.Status.Problems[1:],
		api.Problem{Reason: "StoreSlow", Severity: api.SeverityError})
	next.Sort()
	b.Publish(next)
	expect(overrides, "pause (over)", "jobs")
	expect(overrides, "pin", "jobs/nightly", "b")
	expect(problems, "error", "StoreSlow")
	expect(problems, "over", "NoCapacity")
}
