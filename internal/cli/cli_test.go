package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/status"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) status.Time { return status.Time{Time: epoch.Add(-d)} }

// sample is a cluster with a little of everything: two groups, three instances of which one is dead, and problems.
func sample() *status.Snapshot {
	s := &status.Snapshot{
		Status: status.Status{
			Cluster: "default", Instance: "a", Version: "1.0.0", ObservedAt: ago(time.Second), Ready: true,
			Store:  status.Store{Kind: "mongodb", Reachable: true},
			Groups: []status.Group{{Name: "topics", Cap: new(2)}, {Name: "jobs"}},
			Problems: []status.Problem{
				{Reason: "NoHeadroom", Severity: status.SeverityWarning, Message: "losing b would leave 3 tasks over", Group: "topics", Since: ago(time.Hour)},
				{Reason: "NoCapacity", Severity: status.SeverityError, Message: "no instance has room:\n2 of 2 are full \x1b[31m", Group: "topics", Task: "topics/topic-005", Since: ago(3 * time.Minute)},
			},
		},
		Tasks: []status.Task{
			{Key: "topics/topic-001", State: status.Running, Instance: "a", FencingToken: 1767323045000, StateSince: ago(90 * time.Second), Reason: "Created", Kind: "exec", Labels: status.Labels{"team": "core", "tier": "1"}},
			{Key: "topics/topic-002", State: status.Running, Instance: "a", FencingToken: 7, StateSince: ago(5*time.Minute + 3*time.Second), Reason: "Orphaned", Message: "c died: no heartbeat for 20 s", Kind: "exec"},
			{Key: "topics/topic-003", State: status.Backoff, Instance: "b", FencingToken: 8, StateSince: ago(2 * time.Hour), Reason: "Balance", Restarts: 12, LastError: "exit status 1", Kind: "exec"},
			{Key: "topics/topic-004", State: status.Starting, Instance: "b", FencingToken: 9, StateSince: ago(0), Reason: "Orphaned", Kind: "http", PinnedTo: "b"},
			{Key: "topics/topic-005", State: status.Unassigned, Reason: "NoCapacity", Labels: status.Labels{"team": "edge"}, Kind: "exec"},
			{Key: "jobs/nightly", State: status.Waiting, Instance: "b", StateSince: ago(50 * time.Hour), NextRunAt: ago(-2 * time.Hour), Kind: "exec"},
		},
		Instances: []status.Instance{
			{Name: "a", Session: "s-a", State: status.Live, Zone: "z1", Version: "1.0.0", Revision: "r1", Address: "10.0.0.1:8080", StartedAt: ago(49 * time.Hour), HeartbeatAgeSeconds: .4, Owned: status.Counts{"topics": 2}, Caps: status.Counts{"topics": 2}, Labels: status.Labels{"pool": "gpu"}},
			{Name: "b", Session: "s-b", State: status.Draining, Version: "1.0.0", StartedAt: ago(30 * time.Minute), HeartbeatAgeSeconds: 1.25, Owned: status.Counts{"topics": 2, "jobs": 1}, Caps: status.Counts{"topics": 2}},
			{Name: "c", Session: "s-c", State: status.Dead, HeartbeatAgeSeconds: 312},
		},
		Locks: []status.Lock{
			{Key: "locks/backup", Group: "locks", Name: "backup", Instance: "a", Session: "s-a", FencingToken: 5, OwnedSince: ago(10 * time.Second)},
			{Key: "topics/topic-005", Group: "topics", Name: "topic-005", Next: "s-b", Parked: true},
		},
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.Group, t.Name, _ = strings.Cut(t.Key, "/")
		if t.Group == "topics" {
			s.Status.Groups[0].Count(t.State)
		} else {
			s.Status.Groups[1].Count(t.State)
		}
	}
	s.Status.Groups[0].Room([]status.Place{{Cap: 2, Owned: 2}, {Cap: 2, Owned: 2}})
	s.Sort()
	return s
}

type fakeEvents []status.Event

func (f fakeEvents) Events(_ context.Context, q status.EventQuery) ([]status.Event, error) {
	var found []status.Event
	for _, e := range f { // newest first
		if e.ID >= q.From && (q.To == "" || e.ID < q.To) {
			found = append(found, e)
		}
	}
	if q.OldestFirst {
		for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
			found[i], found[j] = found[j], found[i]
		}
	}
	return found[:min(len(found), q.Limit)], nil
}

var happened = fakeEvents{
	{ID: "3", Time: ago(3 * time.Second), Type: "Moved", Reason: "Orphaned", Key: "topics/topic-002", From: "c", To: "a", FencingToken: 7, Message: "c died: no heartbeat for 20 s"},
	{ID: "2", Time: ago(4 * time.Second), Type: "Died", From: "c", Message: "no heartbeat for 20 s"},
	{ID: "1", Time: ago(time.Hour), Type: "Moved", Reason: "Created", Key: "topics/topic-001", To: "a", By: "admin"},
}

// replica serves the board and returns its address.
func replica(t *testing.T, board *status.Board) string {
	t.Helper()
	server := httptest.NewServer(status.New(status.Config{Source: board, Events: happened}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL
}

func board(s *status.Snapshot) *status.Board {
	var b status.Board
	b.Publish(s)
	return &b
}

type outcome struct {
	out, err string
	code     int
}

func globals() *Globals {
	return &Globals{Now: func() time.Time { return epoch }, Getenv: func(string) string { return "" }}
}

func root0(g *Globals) *cobra.Command {
	root := &cobra.Command{Use: "shardctl", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(g)...)
	return root
}

// shardctl runs a command line as the program does.
func shardctl(t *testing.T, g *Globals, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := root0(g)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code := Report(&errs, cmd.ExecuteContext(t.Context()))
	return outcome{out.String(), errs.String(), code}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (write it anew with -update)\ngot\n%s\nwant\n%s", path, got, want)
	}
}

func TestOutputs(t *testing.T) {
	server := replica(t, board(sample()))
	for file, line := range map[string]string{
		"status.txt":         "status",
		"tasks.txt":          "get tasks",
		"tasks-wide.txt":     "get tasks -o wide",
		"tasks-selected.txt": "get task -g topics -l team -o table --no-headers",
		"tasks-pattern.txt":  "get tasks topics/*-00[1-3] -o name",
		"tasks-names.txt":    "get tasks -g topics topic-001 topic-004",
		"task.json":          "get tasks topics/topic-001 -o json",
		"tasks.yaml":         "get tasks topics/topic-00[45] -o yaml",
		"instances.txt":      "get instances",
		"instances-wide.txt": "get instances -o wide",
		"instance.yaml":      "get instance a -o yaml",
		"groups.txt":         "get groups",
		"groups-wide.txt":    "get groups -o wide",
		"events.txt":         "get events",
		"events-wide.txt":    "get events -o wide",
		"locks.txt":          "get locks",
		"locks-wide.txt":     "get locks -o wide",
	} {
		t.Run(file, func(t *testing.T) {
			got := shardctl(t, globals(), append(strings.Fields(line), "--server", server)...)
			if got.code != 0 || got.err != "" {
				t.Fatalf("code %d: %s", got.code, got.err)
			}
			golden(t, file, got.out)
		})
	}
}

func TestWrongUse(t *testing.T) {
	server := replica(t, board(sample()))
	for line, c := range map[string]struct {
		code int
		says string
	}{
		"get":                                     {2, "tasks, instances"},
		"get cats":                                {2, "tasks, instances"},
		"get tasks -o xml":                        {2, "table, wide"},
		"get tasks -w -o yaml":                    {2, "-w goes"},
		"get tasks --frobnicate":                  {2, "frobnicate"},
		"get tasks -l a=b=c":                      {2, "k in (a,b)"},
		"get locks -l a=b":                        {2, "labels"},
		"get tasks topic-001":                     {2, "GROUP/topic-001"},
		"get tasks [":                             {2, "pattern"},
		"get tasks topics/none":                   {1, "topics/none"},
		"get instances none":                      {1, "none"},
		"status now":                              {2, "now"},
		"wait":                                    {2, "--for"},
		"wait --for=peace":                        {2, "peace"},
		"wait --for=balanced topics/topic-001":    {2, "-g"},
		"wait --for=running topic-001":            {2, "GROUP/topic-001"},
		"wait --for=done --timeout -1s":           {2, "timeout"},
		"wait --for=done --timeout soon":          {2, "soon"},
		"get tasks --server ftp://x":              {2, "http://HOST:PORT"},
		"get tasks --token-file /none":            {2, "/none"},
		"get tasks --ca-file /none":               {2, "/none"},
		"get tasks --server http://127.0.0.1:1":   {1, "start a replica"},
		"status --server 127.0.0.1:1":             {1, "connection refused"},
		"healthcheck --server http://127.0.0.1:1": {1, "not healthy"},
		"healthcheck --server ftp://x":            {1, "http://HOST:PORT"},
		"healthcheck --oops":                      {1, "oops"},
		"healthcheck now":                         {1, "now"},
	} {
		args := strings.Fields(line)
		if !strings.Contains(line, "--server") {
			args = append(args, "--server", server)
		}
		got := shardctl(t, globals(), args...)
		if got.code != c.code || !strings.Contains(got.err, c.says) || got.out != "" || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: code %d, out %q, %s", line, got.code, got.out, got.err)
		}
	}
}

func TestNothingFoundIsNoError(t *testing.T) {
	server := replica(t, board(sample()))
	for line, want := range map[string]outcome{
		"get tasks -g none":              {"", "No tasks found.\n", 0},
		"get tasks none*":                {"", "No tasks found.\n", 0},
		"get tasks -g none -o name":      {"", "", 0},
		"get events -g topics topic-005": {"", "No events found.\n", 0},
	} {
		if got := shardctl(t, globals(), append(strings.Fields(line), "--server", server)...); got != want {
			t.Errorf("%s: got %+v", line, got)
		}
	}
	got := shardctl(t, globals(), "get", "tasks", "-g", "none", "-o", "json", "--server", server)
	if got.code != 0 || !strings.Contains(got.out, `"items": []`) {
		t.Errorf("got %+v", got)
	}
	// What was found is shown beside the error about what was not.
	got = shardctl(t, globals(), "get", "tasks", "topics/topic-001", "topics/none", "-o", "name", "--server", server)
	if got.code != 1 || got.out != "topics/topic-001\n" || !strings.Contains(got.err, "topics/none") {
		t.Errorf("got %+v", got)
	}
}

func TestHealthcheck(t *testing.T) {
	// A replica that knows nothing yet is alive.
	g := globals()
	server := replica(t, &status.Board{})
	g.Getenv = func(name string) string { return map[string]string{"SHARDCTL_SERVER": server}[name] }
	if got := shardctl(t, g, "healthcheck"); got != (outcome{}) {
		t.Errorf("got %+v", got)
	}
}

func TestToken(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := globals()
	g.Getenv = func(name string) string { return map[string]string{"SHARDCTL_ADMIN_TOKEN": "from-env"}[name] }
	if shardctl(t, g, "healthcheck", "--server", server.URL); got != "Bearer from-env" {
		t.Error(got)
	}
	if shardctl(t, g, "healthcheck", "--server", server.URL, "--token-file", file); got != "Bearer from-file" {
		t.Error(got)
	}
}

func TestOffline(t *testing.T) {
	var asked []string
	g := globals()
	g.Offline = func(_ context.Context, paths []string) (*status.Snapshot, error) {
		asked = paths
		return sample(), nil
	}
	got := shardctl(t, g, "get", "tasks", "--config", "a.yaml", "--config", "b")
	golden(t, "tasks.txt", got.out)
	if got.code != 0 || len(asked) != 2 {
		t.Errorf("code %d: %s, asked for %v", got.code, got.err, asked)
	}
	if got := shardctl(t, g, "get", "tasks", "topics/topic-001", "--config", "a.yaml", "-w"); got.code != 2 {
		t.Errorf("got %+v", got)
	}
	g = globals()
	g.Offline = func(context.Context, []string) (*status.Snapshot, error) {
		return nil, Exit{CodeUsage, errors.New("a.yaml:1:1: version: missing")}
	}
	if got := shardctl(t, g, "status", "--config", "a.yaml"); got.code != 2 || !strings.Contains(got.err, "a.yaml:1:1") {
		t.Errorf("got %+v", got)
	}
}

func TestWait(t *testing.T) {
	done := sample()
	for i := range done.Tasks {
		done.Tasks[i].State = status.Done
	}
	done.Status.Groups = []status.Group{{Name: "topics", Tasks: 5, Done: 5}, {Name: "jobs", Tasks: 1, Done: 1}}
	failed := sample()
	failed.Status.Groups = []status.Group{{Name: "topics", Tasks: 5, Done: 4, Failed: 1}}
	stale := sample()
	stale.Status.Stale = true
	even := sample()
	even.Status.Groups = []status.Group{{Name: "topics", Tasks: 5, Running: 3, Backoff: 1, Paused: 1, Imbalance: 1}}
	uneven := sample()
	uneven.Status.Groups = []status.Group{{Name: "topics", Tasks: 5, Running: 5, Imbalance: 4}}

	for name, c := range map[string]struct {
		snapshot *status.Snapshot
		line     string
		code     int
		says     string
	}{
		"all done":               {done, "--for=done", 0, ""},
		"done counts as running": {done, "--for=running", 0, ""},
		"not done":               {sample(), "--for=done -g jobs", 1, "jobs: 1 waiting"},
		"a group runs":           {sample(), "--for=running -g jobs", 0, ""},
		"another does not":       {sample(), "--for=running", 1, "topics: 1 starting, 1 backoff, 1 unassigned"},
		"a task runs":            {sample(), "--for=running topics/topic-001", 0, ""},
		"by -g":                  {sample(), "--for=running -g topics topic-002", 0, ""},
		"a pattern":              {sample(), "--for=running topics/topic-00[12]", 0, ""},
		"a task does not":        {sample(), "--for=running topics/topic-005", 1, "1 unassigned"},
		"an unknown task":        {sample(), "--for=running topics/none", 1, "no task topics/none is known yet"},
		"an unknown group":       {sample(), "--for=balanced -g none", 1, "no group none is known yet"},
		"failed never ends":      {failed, "--for=done --timeout=1h", 1, "1 failed"},
		"stale says nothing":     {stale, "--for=running -g jobs", 1, "store is away"},
		"balanced":               {even, "--for=balanced", 0, ""},
		"uneven":                 {uneven, "--for=balanced", 1, "imbalance 4"},
		"unassigned":             {sample(), "--for=balanced -g topics", 1, "1 starting, 1 unassigned"},
		"nothing known yet":      {&status.Snapshot{}, "--for=balanced", 1, "no group is known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"wait", "--timeout", "0"}, strings.Fields(c.line)...)
			got := shardctl(t, globals(), append(args, "--server", replica(t, board(c.snapshot)))...)
			if got.code != c.code || !strings.Contains(got.err, c.says) || got.out != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWaitSeesItCome(t *testing.T) {
	b := board(sample())
	looks := 0
	h := status.New(status.Config{Source: b})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if looks++; looks == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable) // a replica that is away is waited for as well
			return
		}
		h.ServeHTTP(w, r)
		next := sample()
		next.Status.Groups = []status.Group{{Name: "topics", Tasks: 5, Running: 5}}
		b.Publish(next)
	}))
	defer server.Close()
	got := shardctl(t, globals(), "wait", "--for=running", "--timeout=1m", "--server", server.URL)
	if got.code != 0 || looks != 3 {
		t.Errorf("after %d looks: %+v", looks, got)
	}
}

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
	case <-time.After(30 * time.Second):
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
	for _, want := range []string{"TASK", "topics/topic-001   running", "topics/topic-005   unassigned"} {
		if got := out.next(t); !strings.HasPrefix(got, want) {
			t.Errorf("got %q", got)
		}
	}
	next := sample()
	next.Tasks[1].Restarts = 3 // topic-001
	next.Tasks[2].Restarts = 3 // not asked for
	next.Tasks = next.Tasks[:5]
	b.Publish(next)
	if got := out.next(t); !strings.HasPrefix(got, "topics/topic-001   running") || !strings.Contains(got, " 3 ") {
		t.Errorf("got %q", got)
	}
	if got := out.next(t); !strings.HasPrefix(got, "topics/topic-005   removed") {
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

func TestColourIsBesideTheWord(t *testing.T) {
	v := view{now: epoch, colour: true}
	if got := v.state("failed"); got != "\x1b[31mfailed\x1b[0m" {
		t.Errorf("%q", got)
	}
	v.colour = false
	if got := v.state("failed"); got != "failed" {
		t.Errorf("%q", got)
	}
	if (&Globals{}).colour(&bytes.Buffer{}) {
		t.Error("a file is coloured")
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 123 * time.Second: "2m3s", time.Hour: "60m",
		3 * time.Hour: "3h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
