package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/admin"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// obeying does as asked, but for topic-005, and for unknown names; it notes what it was asked.
type obeying struct {
	mu      sync.Mutex
	asked   []string
	by      string
	changed func()
}

func (o *obeying) Change(_ context.Context, r operate.Request, preview bool) (api.ChangeResult, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.by = r.By
	line := fmt.Sprintf("%s %s %v", r.Verb, r.Scope, r.Names)
	for _, more := range []struct{ name, value string }{{"to", r.To}, {"reason", r.Reason}} {
		if more.value != "" {
			line += fmt.Sprintf(" %s=%q", more.name, more.value)
		}
	}
	if r.For > 0 {
		line += " for=" + r.For.String()
	}
	if r.Strict {
		line += " strict"
	}
	o.asked = append(o.asked, line)
	result := operate.Decision{}.Result(nil)
	for _, name := range r.Names {
		switch name {
		case "topics/topic-005":
			result.Refused = append(
				result.Refused,
				api.Refusal{Name: name, Reason: api.RefusedNotRunning, Message: "nothing of it runs now"},
			)
		case "topics/topic-004":
			result.Unchanged = append(result.Unchanged, name)
		case "none", "topics/none":
			result.Refused = append(result.Refused, api.Refusal{
				Name: name, Reason: api.ReasonNotFound, Message: fmt.Sprintf("no %s %q is known", r.Scope, name),
			})
		default:
			result.Changed = append(result.Changed, name)
		}
	}
	if preview {
		result.Moves = []api.PlannedMove{
			{Key: "topics/topic-001", From: "a", To: "b", Reason: "Drain"},
			{Key: "topics/topic-002", From: "a"},
			{Key: "topics/topic-005", To: "b"},
		}
	} else if o.changed != nil {
		o.changed()
	}
	return result, nil
}

// operated is the address of a replica that takes changes.
func operated(t *testing.T, board *snapshot.Board, o admin.Changer, tokens *access.Tokens) string {
	t.Helper()
	read := status.New(status.Config{Source: board, Logs: wrote})
	server := httptest.NewServer(admin.New(admin.Config{
		Read: read, Source: board, Changer: o, Guard: &admin.Guard{Tokens: tokens}, Logger: logr.Discard(),
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL
}

// What is typed, what the replica is asked, and what is said.
func TestChanges(t *testing.T) {
	var transcript strings.Builder
	for _, line := range [][]string{
		{"drain", "b", "--wait=false", "--reason", "new kernel"},
		{"drain", "c"}, // owns nothing
		{"drain", "a", "--dry-run"},
		{"drain", "none"},
		{"undrain", "b"},
		{"cordon", "a"},
		{"uncordon", "a"},
		{"pause", "topics/topic-001", "-g", "topics", "topic-002"},
		{"pause", "topics/topic-00[14]"},
		{"pause", "topic-*", "-l", "team"},
		{"pause", "-g", "topics"},
		{"pause", "topics/topic-001", "--for", "2h"},
		{"drain", "c", "--for", "90m", "--dry-run"},
		{"pause", "-g", "topics", "-l", "tier=1"},
		{"resume", "-g", "jobs"},
		{"restart", "topics/*"},
		{"restart", "-g", "topics"},
		{"unpin", "-g", "topics", "--dry-run"},
		{"rerun", "topics/none"},
		{"trigger", "jobs/nightly", "--reason", "asked by phone"},
		{"pin", "topics/topic-001", "b"},
		{"pin", "-l", "team=core", "zone=z1", "--strict"},
		{"pin", "topics/topic-001", "web-9"},
		{"pin", "topics/topic-001", "web-*", "--strict"},
		{"unpin", "topics/topic-001"},
		{"move", "-g", "topics", "topic-001", "topic-002", "b"},
		{"move", "topics/topic-001", "b", "--dry-run"},
		{"rebalance"},
		{"rebalance", "-g", "topics"},
		{"pause", "none-*"},
	} {
		o := &obeying{}
		got := shardctl(t, globals(), append(line, "--server", operated(t, board(sample()), o, nil))...)
		fmt.Fprintf(&transcript, "$ shardctl %s\n", strings.Join(line, " "))
		for _, asked := range o.asked {
			fmt.Fprintf(&transcript, "asked: %s\n", asked)
		}
		transcript.WriteString(got.out + got.err)
		if got.code != 0 {
			fmt.Fprintf(&transcript, "exit code %d\n", got.code)
		}
		transcript.WriteString("\n")
		if len(o.asked) > 0 && o.by != osUser() {
			t.Errorf("%v is asked by %q, want %q", line, o.by, osUser())
		}
	}
	golden(t, "changes.txt", transcript.String())
}

func TestWrongChanges(t *testing.T) {
	o := &obeying{}
	server := operated(t, board(sample()), o, nil)
	for line, says := range map[string]string{
		"drain":                              "get instances",
		"drain a b":                          "get instances",
		"drain a --timeout -1s":              "--timeout",
		"pause":                              "GROUP/NAME",
		"pause topic-001":                    "GROUP/topic-001",
		"pause topics/[":                     "pattern",
		"pause -l a=b=c":                     "-l",
		"pin -g topics web-1":                "'*'",
		"move -g topics web-1":               "'*'",
		"pin topics/topic-001":               "then an instance",
		"pin topics/topic-001 web-[":         "instance",
		"move topics/topic-001 a --strict":   "strict",
		"rebalance topics":                   "topics",
		"pause topics/topic-001 --for=ever":  "--for",
		"pause topics/topic-001 --for=2":     "add a unit: 2s",
		"pause topics/topic-001 --for=0s":    "above 0",
		"pause topics/topic-001 --for=5ms":   "for: 5ms: want 1s to 8760h0m0s",
		"resume topics/topic-001 --for=1h":   "--for",
		"cordon a --reason " + long(2000):    "reason",
		"cordon a --server ftp://127.0.0.1":  "http://HOST:PORT",
		"cordon a --request-timeout -1s":     "--request-timeout",
		"cordon a --token-file /none/at/all": "--token-file",
	} {
		args := strings.Fields(line)
		if !strings.Contains(line, "--server") {
			args = append(args, "--server", server)
		}
		got := shardctl(t, globals(), args...)
		if got.code != CodeUsage || !strings.Contains(got.err, says) || got.out != "" ||
			strings.Count(got.err, "\n") != 1 {
			t.Errorf("%.60s: code %d, out %q, %s", line, got.code, got.out, got.err)
		}
	}
	if len(o.asked) > 0 {
		t.Errorf("asked %q", o.asked)
	}
}

// A pin is done once it is written. What cannot be found out for a note on it is no failure.
func TestPinsAreDoneWhereInstancesCannotBeListed(t *testing.T) {
	taken := operated(t, board(sample()), &obeying{}, nil)
	forward, err := url.Parse(taken)
	if err != nil {
		t.Fatal(err)
	}
	to := httputil.NewSingleHostReverseProxy(forward)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/instances" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		to.ServeHTTP(w, r)
	}))
	defer server.Close()
	got := shardctl(t, globals(), "pin", "topics/topic-001", "b", "--server", server.URL)
	if got.code != 0 || got.out != "task topics/topic-001 pinned\n" ||
		!strings.HasPrefix(got.err, "note: whether an instance matches b now is not known: ") {
		t.Errorf("%+v", got)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// A listener that only reads says where changes are taken.
func TestChangesNeedTheAdminListener(t *testing.T) {
	b := board(sample())
	server := httptest.NewServer((&admin.Guard{}).ReadOnly(status.New(status.Config{Source: b})))
	defer server.Close()
	got := shardctl(t, globals(), "cordon", "a", "--server", server.URL)
	if got.code != CodeNo || !strings.Contains(got.err, "admin.listen") || !strings.Contains(got.err, "--server") {
		t.Errorf("%+v", got)
	}
}

func TestChangesWithTokens(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(
		tokens, []byte("ann adminadminadminadmin\nbot operateoperateoperate operate\n"), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	known, err := access.LoadTokens(tokens, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	o := &obeying{}
	server := operated(t, board(sample()), o, known)
	as := func(token string, args ...string) outcome {
		g := globals()
		g.Getenv = func(name string) string { return map[string]string{"SHARDCTL_ADMIN_TOKEN": token}[name] }
		return shardctl(t, g, append(args, "--server", server)...)
	}
	with := func(token string) outcome { return as(token, "cordon", "a") }
	for token, want := range map[string]string{
		"operateoperateoperate": "Name:        bot\nRole:        operate\nChanges:     pause, rerun, restart, resume, trigger\n",
		"":                      "Name:        no token was sent\nRole:        none\nChanges:     none\n",
	} {
		want = "Server:      " + server + "\n" + want
		if got := as(token, "whoami"); got.code != 0 || got.out != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := as("adminadminadminadmin", "whoami", "-o",
		"jsonpath={.name} {.role} {.server}"); got.out != "ann admin "+server+"\n" {
		t.Errorf("%+v", got)
	}
	if got := as("another", "whoami"); got.code != CodeNo || got.out != "" {
		t.Errorf("a token that is not known: %+v", got)
	}
	if got := with(""); got.code != CodeNo || !strings.Contains(got.err, "--token-file") {
		t.Errorf("without: %+v", got)
	}
	if got := with("operateoperateoperate"); got.code != CodeNo || !strings.Contains(got.err, "bot may operate") {
		t.Errorf("of a lower role: %+v", got)
	}
	if len(o.asked) > 0 {
		t.Fatalf("asked %q", o.asked)
	}
	if got := with("adminadminadminadmin"); got.code != 0 || o.by != "ann" {
		t.Errorf("%+v, by %q", got, o.by)
	}
}

// Without a replica the store is written to, and tasks are selected by what it shows.
func TestChangesOnTheStore(t *testing.T) {
	var asked []string
	g := globals()
	g.Offline = func(context.Context, []string) (*snapshot.Cluster, error) { return sample(), nil }
	g.Change = func(
		ctx context.Context, paths []string, r operate.Request, about func(*snapshot.Cluster) ([]string, error),
		preview bool,
	) (api.ChangeResult, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > defaultRequestTimeout {
			t.Errorf("no limit: %v", deadline)
		}
		names, err := about(sample())
		if err != nil {
			return api.ChangeResult{}, err
		}
		asked = append(
			asked, fmt.Sprintf("%v %v %v mine: %v, preview: %v", paths, r.Verb, names, r.By == osUser(), preview),
		)
		return api.ChangeResult{Changed: names}, nil
	}
	for _, test := range []struct{ line, asked, out, err string }{
		{
			"drain b --wait=false --config a.yaml", "[a.yaml] drain [b] mine: true, preview: false",
			"instance b draining\n",
			"",
		},
		{
			"pause -l team --config a.yaml --config b",
			"[a.yaml b] pause [topics/topic-001 topics/topic-005] mine: true, preview: false",
			"task topics/topic-001 paused\ntask topics/topic-005 paused\n", "",
		},
		{
			"rebalance -g jobs --dry-run --config a.yaml", "[a.yaml] rebalance [jobs] mine: true, preview: true",
			"group jobs to be spread evenly (dry run)\nnothing would move\n", "",
		},
		{"pause none-* --config a.yaml", "", "", "error: no declared task matches\n"},
	} {
		asked = nil
		got := shardctl(t, g, strings.Fields(test.line)...)
		if strings.Join(asked, " ") != test.asked || got.out != test.out || got.err != test.err {
			t.Errorf("%s: asked %q, %+v", test.line, asked, got)
		}
	}
	g.Change = func(
		context.Context, []string, operate.Request, func(*snapshot.Cluster) ([]string, error), bool,
	) (api.ChangeResult, error) {
		return api.ChangeResult{}, Exit{CodeUsage, errors.New("a.yaml:1:1: version: missing")}
	}
	if got := shardctl(t, g, "undrain", "b", "--config", "a.yaml"); got.code != CodeUsage {
		t.Errorf("%+v", got)
	}
}

// What is typed is completed by what the cluster has.
func TestChangesAreCompleted(t *testing.T) {
	server := operated(t, board(sample()), &obeying{}, nil)
	for line, want := range map[string]string{
		"drain ":  "a b c",
		"drain b": "b",
		"pause topics/topic-00": "topics/topic-001 topics/topic-002 topics/topic-003 topics/topic-004 " +
			"topics/topic-005",
		"restart -g jobs ": "nightly",
		"pause -g ":        "jobs topics",
		"move topics/topic-001 ": "a b c jobs/nightly topics/topic-001 topics/topic-002 topics/topic-003 " +
			"topics/topic-004 topics/topic-005",
		"pin jobs":                        "jobs/nightly",
		"undrain --server 127.0.0.1:1 ":   "",
		"rebalance -g t":                  "topics",
		"cordon --request-timeout=-1s x ": "",
	} {
		words := strings.Split(line, " ")
		args := append([]string{"__complete", words[0], "--server", server}, words[1:]...)
		got := shardctl(t, globals(), args...)
		offered, directive, _ := strings.Cut(got.out, ":")
		if text := strings.Join(strings.Fields(offered), " "); got.code != 0 || text != want || directive != "4\n" {
			t.Errorf("%q: %q, directive %q, want %q; %+v", line, text, directive, want, got)
		}
	}
}
