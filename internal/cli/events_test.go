package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// eventful are so many newer events of a busy task, and one each of two that were last heard of an hour ago.
func eventful(busy int) fakeEvents {
	var events fakeEvents
	for i := range busy {
		events = append(events, api.Event{
			ID: fmt.Sprintf("%07d", 9_000_000-i), Time: ago(time.Minute), Type: "Moved", Key: "topics/topic-003",
			To: "a",
		})
	}
	return append(
		events, api.Event{ID: "0000002", Time: ago(time.Hour), Type: "Moved", Key: "topics/topic-005", To: "b"},
		api.Event{ID: "0000001", Time: ago(2 * time.Hour), Type: "Moved", Key: "jobs/nightly", To: "c"},
	)
}

// A task whose events are older than the newest ones of all is shown with its own.
func TestEventsOfATaskThatDoesLittle(t *testing.T) {
	server := serve(t, status.Config{
		Source: board(sample()), Events: eventful(api.MaxLimit + api.DefaultLimit),
	})
	for _, test := range []struct {
		names string
		want  []string // the last ones
		all   int
	}{
		{"topics/topic-005", []string{"topics/topic-005"}, 1},
		{"jobs/nightly topics/topic-005 jobs/nightly", []string{"topics/topic-005", "jobs/nightly"}, 2},
		{"topics/*-005 jobs/nightly", []string{"topics/topic-005", "jobs/nightly"}, 2},
		{"-g topics topic-005", []string{"topics/topic-005"}, 1},
		{"topics/topic-003", []string{"topics/topic-003"}, api.DefaultLimit},
		{"topics/topic-00[35]", []string{"topics/topic-003"}, api.DefaultLimit},
		{"--limit 2", []string{"topics/topic-003"}, 2},
		{"topics/topic-003 --limit 700", []string{"topics/topic-003"}, 700},
		{"topics/topic-00[35] --limit 7", []string{"topics/topic-003"}, 7},
		{"topics/topic-005 jobs/nightly --since 90m", []string{"topics/topic-005"}, 1},
		{"topics/*5 jobs/* --since 2h --limit 9", []string{"topics/topic-005", "jobs/nightly"}, 2},
		{"-g jobs --since 2026-01-02T01:04:05Z", []string{"jobs/nightly"}, 1},
		{"-g jobs --since 2026-01-02T02:04:05+01:00", []string{"jobs/nightly"}, 1},
		{"-g jobs --since 2026-01-02T01:04:06Z", nil, 0},
	} {
		args := append([]string{"get", "events", "-o", "name", "--server", server}, strings.Fields(test.names)...)
		got := strings.Fields(shardctl(t, globals(), args...).out)
		if len(got) != test.all || strings.Join(got[len(got)-len(test.want):], " ") != strings.Join(test.want, " ") {
			t.Errorf("%s: %d events, the last ones of %q", test.names, len(got), got[max(0, len(got)-2):])
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &lines{ch: make(chan string, 10_000)}, make(chan error, 1)
	cmd := root0(globals())
	cmd.SetArgs([]string{
		"get", "events", "topics/topic-005", "-w", "--since", "90m", "--no-headers", "--server", server,
	})
	cmd.SetOut(out)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	if got := out.next(t); !strings.Contains(got, "topics/topic-005") {
		t.Errorf("a watch begins with %q", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
