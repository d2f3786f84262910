package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

// Each command ends with 0 when it is done, with 1 when it failed or the answer is no, and with 2 when the command line
// is wrong. A health check of a container knows 0 and 1 only.
var exitCodes = withVerbs(map[int][]string{
	0: {
		"status", "get tasks", "get instances -l pool=gpu", "describe task topics/topic-001", "logs topics/topic-001",
		"wait --for=running topics/topic-001", "healthcheck", "drain c", "drain b --dry-run", "undrain b", "cordon a",
		"uncordon a", "pause topics/topic-001", "pause topics/topic-004", "resume -g jobs", "restart topics/topic-001",
		"rerun topics/topic-001", "trigger jobs/nightly", "pin topics/topic-001 b", "unpin topics/topic-001",
		"move topics/topic-001 b", "rebalance", "whoami", "get overrides", "get problems",
		"slot tenants tenant-1",
	},
	CodeNo: {
		"get tasks topics/none", "describe instance none", "logs topics/topic-005",
		"wait --for=running --timeout 0 topics/topic-005", "drain b --timeout 1ms", "drain none", "undrain none",
		"cordon none", "uncordon none", "pause topics/topic-005", "pause topics/topic-001 topics/none", "pause none-*",
		"resume topics/none", "restart topics/topic-005", "rerun topics/none", "trigger topics/none",
		"pin topics/none b", "unpin topics/none", "move topics/none b", "rebalance -g none",
		"healthcheck --frobnicate", "healthcheck now", "slot none tenant-1", "slot topics tenant-1",
	},
	CodeUsage: {
		"status now", "get cats", "describe", "logs", "wait", "drain", "undrain a b", "cordon", "uncordon", "pause",
		"resume topic-001", "restart", "rerun -l a=b=c", "trigger", "pin topics/topic-001", "unpin",
		"move topics/topic-001",
		"rebalance topics", "whoami me", "slot tenants",
	},
})

// withVerbs adds a line of each code for every verb.
func withVerbs(lines map[int][]string) map[int][]string {
	for _, v := range verbs.All() {
		name, to := string(v.Name), ""
		if v.Target != verbs.NoTarget {
			to = " b"
		}
		done, none, wrong := " topics/topic-001"+to, " topics/none"+to, ""
		switch {
		case v.About(record.ScopeTask):
		case v.About(record.ScopeGroup):
			done, none, wrong = " -g topics", " -g none", " topics"
		case v.Later:
			done, none = " a --wait=false", " none"
		default:
			done, none = " a", " none"
		}
		lines[0] = append(lines[0], name+done)
		lines[CodeNo] = append(lines[CodeNo], name+none)
		lines[CodeUsage] = append(lines[CodeUsage], name+wrong)
	}
	return lines
}

func TestExitCodes(t *testing.T) {
	server := operated(t, board(withSlots(sample())), &obeying{}, nil)
	covered := map[string][]int{}
	for want, lines := range exitCodes {
		for _, line := range lines {
			args := strings.Fields(line)
			covered[args[0]] = append(covered[args[0]], want)
			got := shardctl(t, globals(), append(args, "--server", server)...)
			if got.code != want || (got.err == "") != (want == 0) {
				t.Errorf("%s: code %d, want %d; on standard error %q", line, got.code, want, got.err)
			}
		}
	}
	for _, cmd := range Commands(globals()) {
		name := cmd.Name()
		for code := range exitCodes {
			if unused := name == "healthcheck" && code == CodeUsage || (name == "status" || name == "whoami") &&
				code == CodeNo; !unused &&
				!slices.Contains(covered[name], code) {
				t.Errorf("%s: no command line is expected to end with %d", name, code)
			}
		}
	}
}

// Without a replica every command says so with code 1, and so it does without a store, with --config.
func TestExitCodesWithoutAnybody(t *testing.T) {
	for _, line := range exitCodes[0] {
		args := strings.Fields(line)
		if strings.HasPrefix(line, "wait") {
			args = append(args, "--timeout", "0")
		}
		if args[0] == "drain" {
			args = append(args, "--timeout", "1ms")
		}
		if got := shardctl(t, globals(), append(args, "--server", "127.0.0.1:1")...); got.code != CodeNo ||
			got.err == "" {
			t.Errorf("%s: %+v", line, got)
		}
		if args[0] == "logs" || args[0] == "healthcheck" || args[0] == "whoami" {
			continue // only a replica knows
		}
		g := globals()
		down := errors.New("the store does not answer")
		g.Offline = func(context.Context, []string) (*snapshot.Cluster, error) { return nil, down }
		g.Change = func(
			context.Context, []string, operate.Request, func(*snapshot.Cluster) ([]string, error), bool,
		) (api.ChangeResult, error) {
			return api.ChangeResult{}, down
		}
		want := outcome{err: "error: " + down.Error() + "\n", code: CodeNo}
		if got := shardctl(t, g, append(args, "--config", "a.yaml")...); got != want {
			t.Errorf("%s --config: %+v", line, got)
		}
	}
}

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
	for i := range s.Tasks.All() {
		task := &s.Tasks.All()[i]
		task.PinnedTo, task.Reason, task.Message, task.LastError = hostile, hostile, hostile, hostile
		task.Labels, task.Instance = api.Labels{"team": hostile}, hostile
		task.Overrides = api.Overrides{{
			Kind: "pin", Scope: "task", Name: task.Key, To: hostile, Strict: i%2 == 0, By: hostile, Reason: hostile,
		}}
	}
	for i := range s.Instances {
		instance := &s.Instances[i]
		instance.Message, instance.Zone, instance.Version = hostile, hostile, hostile
		instance.Address, instance.AppAddress = hostile, hostile
		instance.Application = &api.Application{
			ID: hostile, Message: hostile, Status: api.Labels{hostile: hostile},
			Stopping: []api.StoppingKey{{Key: hostile}},
		}
		instance.Overrides = api.Overrides{{Kind: "drain", Name: instance.Name, By: hostile, Reason: hostile}}
	}
	for i := range s.Status.Groups {
		s.Status.Groups[i].Overrides = api.Overrides{{Kind: "pause", Scope: "group", By: hostile, Reason: hostile}}
	}
	for i := range s.Status.Problems {
		s.Status.Problems[i].Message, s.Status.Problems[i].Instance = hostile, hostile
	}
	locks := append(s.Locks.All(), api.Lock{
		Key: hostile, Name: hostile, Kind: api.LockMutex, Reason: hostile, Message: hostile,
		Holders: api.LockHolders{{Instance: hostile}},
	})
	snapshot.SortLocks(locks)
	s.Locks = snapshot.Listed(locks)
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
