package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// follower runs a command in the background; its lines can be waited for.
type follower struct {
	t         *testing.T
	out, errs *lines
	stop      context.CancelFunc
	ended     chan error
}

func follow(t *testing.T, args ...string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{
		t: t, out: &lines{ch: make(chan string, 1000)}, errs: &lines{ch: make(chan string, 1000)}, stop: cancel,
		ended: make(chan error, 1),
	}
	cmd := root0(globals())
	cmd.SetArgs(args)
	cmd.SetOut(f.out)
	cmd.SetErr(f.errs)
	go func() { f.ended <- cmd.ExecuteContext(ctx) }()
	return f
}

func (f *follower) says(l *lines, want string) {
	f.t.Helper()
	if got := l.next(f.t); !strings.Contains(got, want) {
		f.t.Errorf("got %q, want %q", got, want)
	}
}

// until skips lines up to the one wanted.
func (f *follower) until(l *lines, want string) {
	f.t.Helper()
	for !strings.Contains(l.next(f.t), want) {
		continue
	}
}

func (f *follower) end() {
	f.t.Helper()
	f.stop()
	select {
	case err := <-f.ended:
		if err != nil {
			f.t.Error(err)
		}
	case <-time.After(time.Minute):
		f.t.Error("it does not end")
	}
}

// TestLogsFollow holds that no line is lost or printed twice while the task loses its owner, and gets one that keeps
// nothing of before.
func TestLogsFollow(t *testing.T) {
	const key = "topics/topic-002"
	kept := &fakeLogs{lines: map[string][]string{key: {"one", "two"}}}
	b := board(sample())
	server := httptest.NewServer(status.New(status.Config{Source: b, Logs: kept}))
	defer server.Close()
	f := follow(t, "logs", key, "-f", "--tail", "1", "--server", server.URL)
	f.says(f.out, "two")
	kept.write(key, "three", "three")
	f.says(f.out, "three")
	f.says(f.out, "three")

	kept.mu.Lock()
	delete(kept.lines, key)
	kept.mu.Unlock()
	f.says(f.errs, "-- a keeps no output of "+key+"; waiting")

	again := sample()
	again.Instances[0].StartedAt = ago(time.Second) // another process
	b.Publish(again)
	kept.write(key, "begun")
	f.says(f.out, "begun")
	f.says(f.errs, "-- "+key+" runs on a again, in another process (Orphaned)")
	f.end()
}

// TestLogsFollowAMove holds that the lines of the owner before come first, to the last one, then a note and all lines
// of the new owner; and that a replica that is behind brings none of them again.
func TestLogsFollowAMove(t *testing.T) {
	const key = "topics/topic-002"
	before := &fakeLogs{lines: map[string][]string{key: {"one"}}, token: 7}
	after := &fakeLogs{lines: map[string][]string{key: {"begun"}}, token: 8}
	owned := func(owner string, token int64) *snapshot.Cluster {
		s := sample()
		task := s.Task(key)
		task.Owner, task.Reason = api.Owner{Instance: owner, FencingToken: token}, "Drain"
		return s
	}
	ofB := owned("b", 8)
	ofB.Status.Instance = "b"
	b := httptest.NewServer(status.New(status.Config{Source: board(ofB), Logs: after}))
	defer b.Close()
	source := board(owned("a", 7))
	server := httptest.NewServer(status.New(status.Config{Source: source, Logs: before}))
	defer server.Close()
	f := follow(t, "logs", key, "-f", "--timestamps", "--server", server.URL)
	f.says(f.out, "2026-01-02T03:04:05Z one")

	before.mu.Lock()
	before.lines[key] = append(before.lines[key], "ending")
	before.left = true
	before.mu.Unlock()
	moved := owned("b", 8)
	for i := range moved.Instances {
		if moved.Instances[i].Name == "b" {
			moved.Instances[i].Address = b.URL
		}
	}
	source.Publish(moved)
	f.says(f.out, "2026-01-02T03:04:06Z ending")
	f.says(f.errs, "-- "+key+" moved from a to b (Drain)")
	f.says(f.out, "2026-01-02T03:04:05Z begun")

	source.Publish(owned("a", 7)) // as a replica shows it that is behind
	asked := make(chan struct{})
	before.onRead(func() { close(asked) })
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("nothing is read of it")
	}
	source.Publish(moved)
	after.write(key, "going on")
	f.says(f.out, "2026-01-02T03:04:06Z going on")
	f.end()
	select {
	case line := <-f.errs.ch:
		t.Errorf("and %q", line)
	default:
	}
}

// TestLogsOfARunThatHasEnded holds that what is printed of it is not taken for that of an owner.
func TestLogsOfARunThatHasEnded(t *testing.T) {
	const key = "topics/topic-005"
	kept := &fakeLogs{lines: map[string][]string{key: {"one"}}, left: true}
	server := httptest.NewServer(status.New(status.Config{Source: board(sample()), Logs: kept}))
	defer server.Close()
	got := shardctl(t, globals(), "logs", key, "--server", server.URL)
	if got.out != "one\n" || got.err != "-- "+key+" does not run on a any more; it wrote there:\n" {
		t.Errorf("%q, %q", got.out, got.err)
	}
	got = shardctl(t, globals(), "logs", key, "-p", "--server", server.URL)
	if got.code != CodeNo || !strings.Contains(got.err, "a keeps no run of "+key+" before the newest one") {
		t.Errorf("-p: %d %q, %q", got.code, got.out, got.err)
	}
	if got := shardctl(t, globals(), "logs", key, "-f", "-p", "--server", server.URL); got.code != CodeUsage {
		t.Errorf("-f -p: %d %s", got.code, got.err)
	}
}

// TestBreaksAreTold holds that who watches learns that the replica is gone, and that it is back, once each.
func TestBreaksAreTold(t *testing.T) {
	for _, line := range []string{"get tasks -w", "get events -w", "status -w", "status -w -o json"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel() // a watch waits before it comes again
			down := make(chan bool, 1)
			handler := status.New(status.Config{Source: board(sample()), Events: happened, Logs: wrote})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-down: // one connection is refused in the middle
					panic(http.ErrAbortHandler)
				default:
					handler.ServeHTTP(w, r)
				}
			}))
			defer server.Close()
			f := follow(t, append(strings.Fields(line), "--server", server.URL)...)
			_ = f.out.next(t)
			if line == "status -w" {
				f.until(f.out, "losing b would leave")
			}
			down <- true
			server.CloseClientConnections()
			f.says(f.errs, "03:04:05 lost "+server.URL+" (")
			f.says(f.errs, "03:04:05 "+server.URL+" answers again after 0s")
			f.end()
			select {
			case said := <-f.errs.ch:
				t.Errorf("and %q", said)
			default:
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	server := replica(t, board(sample()))
	for line, want := range map[string]string{
		"get ": "tasks instances groups events locks owners overrides problems runs",
		"get tasks topics/topic-00": "topics/topic-001 topics/topic-002 topics/topic-003 topics/topic-004 " +
			"topics/topic-005",
		"get tasks -g jobs ":                "nightly",
		"get instances ":                    "a b c",
		"get locks loc":                     "locks/backup",
		"get tasks -g ":                     "jobs topics",
		"get tasks -o ":                     "table wide json yaml name jsonpath=",
		"describe ":                         "task instance group",
		"describe group t":                  "topics",
		"describe task jobs/nightly ":       "",
		"logs jobs":                         "jobs/nightly",
		"logs jobs/nightly ":                "",
		"wait --for ":                       "balanced running done",
		"wait --for=done -g topics topic-0": "topic-001 topic-002 topic-003 topic-004 topic-005",
		"drain ":                            "a b c",
		"pause -g topics topic-001":         "topic-001",
		"status -o ":                        "table json yaml jsonpath=",
	} {
		words := strings.Split(line, " ")
		last := len(words) - 1
		args := append([]string{"__complete"}, words[0], "--server", server)
		args = append(append(args, words[1:last]...), words[last])
		got := shardctl(t, globals(), args...)
		offered := strings.Fields(got.out)
		for i, word := range offered {
			if strings.HasPrefix(word, ":") {
				offered = offered[:i]
				break
			}
		}
		if strings.Join(offered, " ") != want {
			t.Errorf("%s: offered %v", line, offered)
		}
	}
}
