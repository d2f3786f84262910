package cli

import (
	"context"
	"strings"
	"testing"
	"unicode"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// hostile is a text that a terminal would obey: it sets the title, and, with the 8-bit introducer, a colour.
const hostile = "b\x1b]0;mine\x07\u009b31m\r\x7f\ufeff\uffff"

// refusing refuses all, with a text that somebody else wrote.
type refusing struct{}

func (refusing) Change(_ context.Context, r operate.Request, _ bool) (api.ChangeResult, error) {
	return api.ChangeResult{Refused: []api.Refusal{{
		Name: r.Names[0], Reason: api.RefusedPaused, Message: "it is paused by " + hostile + ": resume it first",
	}}}, nil
}

// Who may ask for a pause, give a reason or name a lock does not command the terminals of those who look.
func TestTerminalsObeyNobody(t *testing.T) {
	s := sample()
	for i := range s.Tasks {
		task := &s.Tasks[i]
		task.PinnedTo, task.Reason, task.Message, task.LastError = hostile, hostile, hostile, hostile
		task.Labels, task.Instance = api.Labels{"team": hostile}, hostile
		task.Overrides = api.Overrides{{
			Kind: "pin", Scope: "task", Name: task.Key, To: hostile, Strict: i%2 == 0, By: hostile, Reason: hostile,
		}}
	}
	for i := range s.Instances {
		instance := &s.Instances[i]
		instance.Message, instance.Zone, instance.Version, instance.Address = hostile, hostile, hostile, hostile
		instance.Overrides = api.Overrides{{Kind: "drain", Name: instance.Name, By: hostile, Reason: hostile}}
	}
	for i := range s.Status.Groups {
		s.Status.Groups[i].Overrides = api.Overrides{{Kind: "pause", Scope: "group", By: hostile, Reason: hostile}}
	}
	for i := range s.Status.Problems {
		s.Status.Problems[i].Message, s.Status.Problems[i].Instance = hostile, hostile
	}
	s.Locks = append(s.Locks, api.Lock{
		Key: hostile, Name: hostile, Kind: api.LockMutex, Reason: hostile, Message: hostile,
		Holders: api.LockHolders{{Instance: hostile}},
	})
	events := fakeEvents{{
		ID: "1", Type: "Change", Reason: hostile, Key: "topics/topic-001", From: hostile, To: hostile, By: hostile,
		Message: hostile,
	}}
	reads := serve(t, status.Config{Source: board(s), Events: events, Runs: fakeRuns{{
		Result: hostile, Instance: hostile, Error: hostile, Output: hostile,
	}}})
	for line, code := range map[string]int{
		"status": 0, "get tasks": 0, "get tasks -o wide": 0, "get instances -o wide": 0, "get groups -o wide": 0,
		"get events": 0, "get events -o wide": 0, "get locks -o wide": 0, "get locks -o name": 0,
		"get runs jobs/nightly -o wide": 0, "describe task": 0, "describe task topics/topic-001": 0,
		"describe task topics/topic-004": 0, "describe task jobs/nightly": 0, "describe instance a": 0,
		"describe group jobs": 0, "get locks -o json": 0, "get events -o yaml": 0,
	} {
		got := shardctl(t, globals(), append(strings.Fields(line), "--server", reads)...)
		raw := strings.Contains(line, "json") // programs read it: nothing is changed, and JSON escapes what it has to
		if got.code != code || got.err != "" || !strings.Contains(got.out, "mine") || !raw && obeyed(got.out) {
			t.Errorf("%s: code %d, %q, out %q", line, got.code, got.err, got.out)
		}
	}
	offered := shardctl(t, globals(), "__complete", "get", "--server", reads, "locks", "")
	if !strings.HasPrefix(offered.out, "locks/backup\n") || obeyed(offered.out) {
		t.Errorf("completed with %q", offered.out)
	}
	changes := operated(t, board(s), refusing{}, nil)
	for _, line := range []string{"trigger jobs/nightly", "pause -g jobs", "drain a"} {
		got := shardctl(t, globals(), append(strings.Fields(line), "--server", changes)...)
		if got.code != CodeNo || !strings.Contains(got.err, "mine") || obeyed(got.err) {
			t.Errorf("%s: code %d, %q", line, got.code, got.err)
		}
	}
}

// obeyed says whether a terminal would do more with the text than show it in lines.
func obeyed(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) })
}
