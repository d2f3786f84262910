package config

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// feed is a kind of task that has batches worked on by another kind, which it parses under a field of its own.
type feed struct {
	Batches []string
	Sink    tasks.BatchSink
	results chan<- error
}

type feedKind struct{ results chan<- error }

func (feedKind) Name() string { return "feed" }

func (feedKind) Schema() string {
	return `{"type": "object", "additionalProperties": false, "properties": {
  "batches": {"type": "array", "items": {"$ref": "#/$defs/text"}},
  "exec": {"$ref": "#/$defs/exec"}, "http": {"$ref": "#/$defs/http"}, "callback": {"$ref": "#/$defs/callback"}
}}`
}

func (feedKind) Fields() tasks.Fields { return tasks.FieldsOfWork() }

func (k feedKind) Parse(n *decode.Node, r *decode.Reader) tasks.Runner {
	f := feed{Batches: r.TextList(n.Get("batches")), results: k.results}
	for _, kind := range kinds.All().All() {
		if at := n.Get(kind.Name()); at != nil {
			f.Sink, _ = kind.Parse(at, r).(tasks.BatchSink)
		}
	}
	return f
}

func (feed) Kind() string { return "feed" }

func (f feed) Validate(use tasks.Use) []decode.FieldError {
	return decode.Within(f.Sink.Kind(), f.Sink.Validate(use))
}

func (f feed) Print(use tasks.Use) any {
	return decode.Fields{{Name: "batches", Value: f.Batches}, {Name: f.Sink.Kind(), Value: f.Sink.Print(use)}}
}

func (f feed) NeedsRestart(tasks.Runner) bool { return true }

func (f feed) Run(ctx context.Context, env tasks.Env) tasks.Ending {
	for i, text := range f.Batches {
		f.results <- f.Sink.Deliver(
			ctx, env, tasks.Batch{ID: "batch-" + string(rune('1'+i)), Type: "text/plain", Body: []byte(text)},
		)
	}
	return tasks.Ending{ByItself: true}
}

// Each kind of the program can stand under the field of another and take batches there.
func TestKindsAreSinksUnderAnyNode(t *testing.T) {
	results := make(chan error, 10)
	all, err := tasks.NewKinds(append(kinds.All().All(), feedKind{results})...)
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, strings.Join([]string{
			r.Header.Get("Shardctl-Event"), r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"),
			r.Header.Get("Shardctl-Fencing-Token"),
			r.Header.Get("Shardctl-Valid-For"), string(body),
		}, " "))
		if string(body) == "bad" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	var registry tasks.Registry
	var called []string
	if err := registry.Register("take", func(_ context.Context, run tasks.Run) error {
		called = append(called, run.Batch.ID+" "+string(run.Batch.Body))
		if string(run.Batch.Body) == "bad" {
			panic("refused")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, out := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "out")
	write(t, path, group(`      - name: run
        restart: never
        feed: {batches: [one, bad], exec: {command: [sh, -c, 'read -r text || :; echo "$SHARDCTL_BATCH_ID $SHARDCTL_FENCING_TOKEN $text" >> `+out+`; [ "$text" != bad ]']}}
      - {name: ignore, restart: never, feed: {batches: ["`+strings.Repeat("x", 1<<18)+`"], exec: {command: ["true"]}}}
      - {name: call, restart: never, feed: {batches: [one, bad], http: {url: "$(URL)", body: ignored}}}
      - {name: go, restart: never, feed: {batches: [one, bad], callback: take}}
`))
	env := func(name string) (string, bool) { return server.URL, name == "URL" }
	s, err := Load([]string{path}, Options{Env: env, Kinds: all, Callbacks: &registry})
	if err != nil {
		t.Fatal(err)
	}
	supervise := func(c *tasks.Config) {
		c.Registry = &registry
		c.Environ = func() []string { return []string{"PATH=" + os.Getenv("PATH"), "URL=" + server.URL} }
	}
	for i, want := range []struct{ first, second string }{
		{"", "exit status 1"}, {"", ""}, {"", "418"}, {"", "refused"},
	} {
		task := s.Groups[0].Tasks[i]
		runs(t, task, supervise)
		for j, want := range []string{want.first, want.second}[:len(task.Runner.(feed).Batches)] {
			err := <-results
			if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, batch %d: %v, want %q", task.Name, j, err, want)
			}
		}
	}
	written, err := os.ReadFile(out)
	if err != nil || string(written) != "batch-1 7 one\nbatch-2 7 bad\n" {
		t.Errorf("the command wrote %q, %v", written, err)
	}
	if got := strings.Join(requests, "; "); got != "batch batch-1 text/plain 7  one; batch batch-2 text/plain 7  bad" {
		t.Errorf("requests %s", got)
	}
	if got := strings.Join(called, "; "); got != "batch-1 one; batch-2 bad" {
		t.Errorf("called with %s", got)
	}

	write(t, path, group(`      - {name: a, feed: {batches: [a], exec: {comand: [a]}}}
      - {name: b, feed: {batches: [a], http: {url: "ftp://x", headers: {"A B": c}}}}
      - {name: c, feed: {batches: [a], callback: other}}
      - {name: d, feed: {batches: [a], exec: {command: [a, "$(NO)"]}}}
`))
	_, err = Load([]string{path}, Options{Env: env, Kinds: all, Callbacks: &registry})
	var errs decode.Errors
	if !errors.As(err, &errs) || len(errs) != 6 {
		t.Fatalf("errors\n%v\nwant six", err)
	}
	for i, want := range []string{
		"feed.exec.command: is required", "feed.exec.comand: is not a field", "feed.http.url: is not a URL",
		`feed.http.headers["A B"]: is not the name`,
		"feed.callback: is \"other\", must be one of those registered in Go: take",
		"feed.exec.command[1]: $(NO) is not set",
	} {
		if !strings.Contains(errs[i].Error(), want) || errs[i].Line < 5 || errs[i].Col < 20 {
			t.Errorf("error %v, want %s", errs[i], want)
		}
	}
}

// A batch that is being worked on ends with its context, and nothing of the work is left.
func TestDeliveryEndsWithItsContext(t *testing.T) {
	results := make(chan error, 1)
	all, err := tasks.NewKinds(append(kinds.All().All(), feedKind{results})...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, group("      - {name: a, every: 50ms, timeout: 20ms, stop: {timeout: 1s}, feed: {batches: [x], "+
		"exec: {command: [sleep, '1000']}}}\n"))
	s, err := Load([]string{path}, Options{Env: testEnv, Kinds: all})
	if err != nil {
		t.Fatal(err)
	}
	supervisor, err := tasks.NewSupervisor(tasks.Config{Lease: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- supervisor.Run(ctx, s.Groups[0].Tasks[0], held{key: s.Groups[0].Tasks[0].Key()}) }()
	if err := <-results; err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("Deliver returned %v, want why its context ended", err)
	}
	cancel()
	for {
		select {
		case err := <-results:
			if err == nil {
				t.Error("a batch that never ends was worked on")
			}
			continue
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
			return
		}
	}
}
