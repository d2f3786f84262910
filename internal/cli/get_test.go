package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// Of what is named only that is read, and no list of all.
func TestOnlyWhatIsNamedIsRead(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	read := status.New(status.Config{Source: board(sample()), Events: happened, Runs: ran})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Del("limit")
		mu.Lock()
		asked = append(asked, strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1")+"?"+query.Encode(), "?"))
		mu.Unlock()
		read.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	for line, want := range map[string]string{
		"get tasks topics/topic-001":                         "/tasks?name=topics%2Ftopic-001",
		"get tasks -g jobs nightly n*":                       "/tasks?group=jobs&name=jobs%2Fnightly&name=jobs%2Fn%2A",
		"get tasks topics/topic-00[12]":                      "/tasks?name=topics%2Ftopic-00%5B12%5D",
		"get tasks */topic-001":                              "/tasks?name=%2A%2Ftopic-001",
		"get tasks topics/topic-001 -l team":                 "/tasks?name=topics%2Ftopic-001&selector=team",
		"get locks locks/backup":                             "/locks?name=locks%2Fbackup",
		"get instances a":                                    "/instances?name=a",
		"get groups top*":                                    "/groups?name=top%2A",
		"get events topics/topic-001":                        "/events?name=topics%2Ftopic-001",
		"wait --for=running --timeout=0 topics/topic-001":    "/tasks?name=topics%2Ftopic-001",
		"wait --for=running --timeout=0 topics/topic-00[12]": "/tasks?name=topics%2Ftopic-00%5B12%5D",
		"wait --for=running --timeout=0 -g topics topic-001": "/tasks?group=topics&name=topics%2Ftopic-001",
		"wait --for=running --timeout=0 -g jobs":             "/groups?group=jobs",
		"get tasks topics/none topics/topic-001 -g jobs":     "/tasks?group=jobs&name=topics%2Fnone&name=topics%2Ftopic-001",
		// More than a replica takes at once are picked from the list.
		"get tasks" + strings.Repeat(" topics/topic-001", status.MaxValues+1): "/tasks",
	} {
		asked = nil
		got := shardctl(t, globals(), append(strings.Fields(line), "--server", server.URL)...)
		mu.Lock()
		if text := strings.Join(asked, " "); text != want || (got.code != 0) != strings.Contains(line, "none") {
			t.Errorf("%s: asked %s, want %s; %+v", line, text, want, got)
		}
		mu.Unlock()
	}
	// A name that is not there is an error, and those that are there are listed.
	asked = nil
	got := shardctl(t, globals(), "get", "tasks", "topics/topic-01", "--server", server.URL)
	if got.code != CodeNo || !strings.Contains(got.err, "did you mean topics/topic-") ||
		!slices.Contains(asked, "/tasks") {
		t.Errorf("%+v, asked %v", got, asked)
	}
}

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

// fakeMutexes are the locks of programs in a store.
type fakeMutexes []api.Lock

func (f fakeMutexes) Mutexes(context.Context) ([]api.Lock, error) { return slices.Clone(f), nil }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func heldBy(instance string, token int64) api.LockHolder {
	return api.LockHolder{
		Instance: instance, Session: "s-" + instance, FencingToken: token, HeldSince: ago(seconds(token)),
	}
}

// programs are locks of each kind.
var programs = fakeMutexes{
	{
		Key: "reports/monthly", Name: "reports/monthly", Kind: api.LockMutex, Limit: 1, Waiting: 5,
		Owner:   api.Owner{Instance: "web-1", Session: "s-web-1", FencingToken: 40, OwnedSince: ago(seconds(40))},
		Holders: api.LockHolders{heldBy("web-1", 40)}, Next: "s-web-2",
		Queue: api.LockQueue{{Instance: "web-2"}, {Instance: "web-3"}, {}, {Instance: "web-4"}, {Instance: "web-2"}},
	},
	{
		Key: "crawler", Name: "crawler", Kind: api.LockSemaphore, Limit: 5, Owner: api.Owner{FencingToken: 12},
		Holders: api.LockHolders{heldBy("web-1", 9), heldBy("web-2", 12), heldBy("", 3), heldBy("web-3", 11)},
	},
	{
		Key: "index", Name: "index", Kind: api.LockRW, Waiting: 1, Owner: api.Owner{FencingToken: 12},
		Holders: api.LockHolders{{Instance: "web-1", Shared: true}, {Instance: "web-2", Shared: true}},
		Queue:   api.LockQueue{{Instance: "web-3", Session: "s-web-3"}},
	},
	{
		Key: "migrate", Name: "migrate", Kind: api.LockMutex, Limit: 1, Owner: api.Owner{FencingToken: 7},
		KeptUntil: ago(-seconds(90)),
	},
	{
		Key: "topics/topic-005", Name: "topics/topic-005", Kind: api.LockRW, Reason: "Orphaned",
		Owner:   api.Owner{Instance: "c", Session: "s-c", FencingToken: 4, OwnedSince: ago(seconds(4))},
		Holders: api.LockHolders{heldBy("c", 4)}, Message: "c died: no heartbeat for 20 s. Who asks next can have it",
	},
}

func TestLocksOfPrograms(t *testing.T) {
	h := status.New(status.Config{Source: board(sample()), Mutexes: programs})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for file, line := range map[string]string{
		"locks-all.txt":      "get locks",
		"locks-all-wide.txt": "get locks -o wide",
		"lock-mutex.json":    "get locks reports/monthly -o json",
		"lock-task.yaml":     "get locks locks/backup -o yaml",
		"locks-kind.txt":     "get locks --kind semaphore,rwlock -o name",
		"locks-pattern.txt":  "get locks reports/* mig* topic-* -o name",
		"locks-group.txt":    "get locks -g topics topic-005 -o name",
	} {
		t.Run(file, func(t *testing.T) {
			got := shardctl(t, globals(), append(strings.Fields(line), "--server", server.URL)...)
			if got.code != 0 || got.err != "" {
				t.Fatalf("code %d: %s", got.code, got.err)
			}
			golden(t, file, got.out)
		})
	}
	for line, says := range map[string]string{
		"get locks --kind mutx":    "is not one of task, chore, mutex, rwlock, semaphore",
		"get tasks --kind mutex":   "--kind is of locks",
		"get locks report/monthly": "did you mean reports/monthly?",
	} {
		got := shardctl(t, globals(), append([]string{"--server", server.URL}, strings.Fields(line)...)...)
		if got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("%s: code %d, %s", line, got.code, got.err)
		}
	}
}

// A watched lock that is released is not shown as held.
func TestFreedLockIsFree(t *testing.T) {
	for _, kind := range api.LockKinds() {
		l := programs[0]
		l.Kind = kind
		locks().gone(&l)
		if want := !kind.OfProgram(); (len(l.Holders) > 0) != want || (l.Instance != "") != want ||
			l.FencingToken != 40 {
			t.Errorf("%s: %+v", kind, l)
		}
	}
}

// TestWideTablesAreWhole holds that what is no terminal gets everything, however long.
func TestWideTablesAreWhole(t *testing.T) {
	if width, height := sizeOf(&strings.Builder{}); width != 0 || height != 0 {
		t.Errorf("%d × %d", width, height)
	}
}
