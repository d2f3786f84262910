package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/function"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// memory adds subscriptions to a broker in memory to the kinds of the program.
func memory(t *testing.T, broker *memsource.Broker) *kind.Set[kind.Kind] {
	t.Helper()
	all, err := kind.NewSet[kind.Kind](append(
		kinds.All().All(), subscribe.NewKind(memsource.Kind(broker), kinds.Sinks()...),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// delivered notes what receivers got: NAME ID TOKEN BODY.
type delivered chan string

func (d delivered) note(name, id, token, body string) {
	d <- strings.Join([]string{name, id, token, body}, " ")
}

// Each sink of the program takes the messages of a source as it is configured, and again those that failed.
func TestSinksWorkAsConfigured(t *testing.T) {
	got := make(delivered, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) == "two" && r.Header.Get("Ce-Attempt") == "1" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		got.note(r.Header.Get("Shardctl-Task"), r.Header.Get("Ce-Id"), r.Header.Get("Shardctl-Fencing-Token"),
			string(body))
	}))
	defer server.Close()
	registry := &tasks.Registry{}
	if err := function.Handle(registry, "take", func(_ context.Context, d subscribe.Delivery, run tasks.Run) error {
		if string(d.Body) == "two" && d.Attempt == 1 {
			panic("refused")
		}
		got.note(run.Name, d.ID, fmt.Sprint(run.Token), string(d.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	broker := memsource.New()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "out")
	write(t, path, group(`      - name: call
        mem: {topic: $(SHARDCTL_TASK)}
        deliver: {http: {url: "$(URL)/in", headers: {Team: $(SHARDCTL_GROUP)}, timeout: 5s}}
        retry: {backoff: {initial: 1ms}}
      - {name: go, mem: {topic: go}, deliver: {callback: take}, retry: {backoff: {initial: 1ms}}}
      - name: run
        mem: {topic: run}
        retry: {backoff: {initial: 1ms}}
        deliver:
          exec:
            timeout: 10s
            env: {OUT: '`+out+`'}
            command:
              - sh
              - -c
              - |
                while read -r line; do
                  id=${line#*'"id":"'}; id=${id%%'"'*}; data=${line#*'"data":"'}; data=${data%%'"'*}
                  case $line in
                    *'"attempt":1,'*'"data":"two"'*) echo "{\"id\": \"$id\", \"error\": \"refused\"}" ;;
                    *) echo "run $id $SHARDCTL_FENCING_TOKEN $data" >> "$OUT"; echo "$id" ;;
                  esac
                done
`))
	env := func(name string) (string, bool) { return server.URL, name == "URL" }
	s, err := Load([]string{path}, Options{Env: env, Kinds: memory(t, broker), Callbacks: registry})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range s.Groups[0].Tasks {
		broker.Create(task.Name, 1)
		if err := broker.Publish(
			task.Name, subscribe.Message{Body: []byte("one")}, subscribe.Message{Body: []byte("two")},
		); err != nil {
			t.Fatal(err)
		}
		consume(t, task, broker, func(c *supervisor.Config) {
			c.Registry = registry
			c.Environ = func() []string { return []string{"PATH=" + os.Getenv("PATH"), "URL=" + server.URL} }
		})
		if task.Name == "run" {
			written, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(written)) {
				got <- strings.TrimSuffix(line, "\n")
			}
		}
		for i, body := range []string{"one", "two"} {
			want := fmt.Sprintf("%s %s/0/%d 7 %s", task.Name, task.Name, i, body)
			if line := <-got; line != want {
				t.Errorf("got %s, want %s", line, want)
			}
		}
	}
	if len(got) > 0 {
		t.Errorf("%d messages came twice", len(got))
	}
}

// consume runs a task until its two messages are acknowledged.
func consume(t *testing.T, task tasks.Task, broker *memsource.Broker, change func(*supervisor.Config)) {
	t.Helper()
	cfg := supervisor.Config{Lease: 20 * time.Second, Logger: testr.New(t)}
	change(&cfg)
	supervisor, err := supervisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- supervisor.Run(ctx, task, held{key: task.Key()}) }()
	limit := time.Now().Add(time.Minute)
	for broker.Acked(task.Name, string(task.Key())) < 2 {
		if time.Now().After(limit) {
			t.Fatalf("%s: %d messages are acknowledged", task.Name, broker.Acked(task.Name, string(task.Key())))
		}
		time.Sleep(time.Millisecond)
	}
	cancel(elect.ErrReleased)
	if err := <-done; !errors.Is(err, elect.ErrReleased) {
		t.Errorf("Run returned %v", err)
	}
}

// All that is wrong with a delivery is said at once, where it stands.
func TestErrorsOfSinks(t *testing.T) {
	registry := &tasks.Registry{}
	if err := registry.Register("take", func(context.Context, tasks.Run) error { return nil }); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, group(`      - {name: a, mem: {topic: a}, deliver: {exec: {comand: [a], timeout: 0s}}}
      - {name: b, mem: {topic: a}, deliver: {http: {url: "ftp://x", headers: {Ce-Id: c}, batchSize: 0, timeout: 0s}}}
      - {name: c, mem: {topic: a}, deliver: {callback: other}}
      - {name: d, mem: {topic: a}, deliver: {exec: {command: [a, "$(NO)"], ready: {delay: 1s}}}}
      - {name: e, mem: {topic: a}, deliver: {http: {url: "http://x"}, callback: take}}
      - {name: f, mem: {topic: a}, deliver: {http: {url: "http://$(NO)", body: x}}}
      - name: g
        mem: {topic: a}
        deliver: {http: {url: "http://x", timeout: 1ms, batchSize: 5}}
        retry: {backoff: {initial: 1us, max: 1ms}}
      - {name: h, mem: {topic: a}, deliver: {exec: {command: [a], timeout: 1ns}}}
      - {name: i, mem: {topic: a}, deliver: {http: {url: "http://x", batchSize: 5}}, maxInFlight: 4}
`))
	none := func(string) (string, bool) { return "", false }
	_, err := Load([]string{path}, Options{Env: none, Kinds: memory(t, memsource.New()), Callbacks: registry})
	var errs decode.Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"[0].deliver.exec.command: is required", "[0].deliver.exec.comand: is not a field",
		"[0].deliver.exec.timeout: is \"0s\", must be more than 0s",
		"[1].deliver.http.url: is not a URL", "[1].deliver.http.headers.Ce-Id: is set by shardctl",
		"[1].deliver.http.batchSize: is \"0\", must be a whole number from 1 to 1000",
		"[1].deliver.http.timeout: is \"0s\", must be more than 0s",
		"[2].deliver.callback: is \"other\", must be one of those registered in Go: take",
		"[3].deliver.exec.command[1]: $(NO) is not set", "[3].deliver.exec.ready: is not a field",
		"[4].deliver: has http and callback", "[5].deliver.http.url: $(NO) is not set",
		"[5].deliver.http.body: is not a field",
		"[6].deliver.http.timeout: is \"1ms\", must be at least 10ms",
		"[6].deliver.http.batchSize: is 5 and maxInFlight 1, must be at most maxInFlight",
		"[6].retry.backoff.initial: is \"1us\", must be at least 1ms",
		"[6].retry.backoff.max: is \"1ms\", must be at least 10ms",
		"[7].deliver.exec.timeout: is \"1ns\", must be at least 10ms",
		"[8].deliver.http.batchSize: is 5 and maxInFlight 4, must be at most maxInFlight",
	} {
		found := false
		for i, e := range errs {
			if strings.Contains(e.Error(), want) && e.Line >= 5 && e.Col > 0 {
				errs, found = append(errs[:i:i], errs[i+1:]...), true
				break
			}
		}
		if !found {
			t.Errorf("no error %s in\n%v", want, err)
		}
	}
	if len(errs) > 0 {
		t.Errorf("too much is said:\n%v", errs)
	}
}

// What is printed can be read again.
func TestSinksArePrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, group(`      - {name: a, mem: {topic: a}, deliver: {exec: {command: [a, b]}}}
      - name: b
        mem: {topic: a}
        deliver: {http: {url: "https://u:$(A)@x", batchSize: 5, tls: {caFile: /ca}}}
        maxInFlight: 5
      - {name: c, mem: {topic: a}, deliver: {callback: take}}
`))
	options := Options{Env: testEnv, Kinds: memory(t, memsource.New())}
	s, err := Load([]string{path}, options)
	if err != nil {
		t.Fatal(err)
	}
	var first, second strings.Builder
	if err := s.Print(&first); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"timeout: 30s", "timeout: 10s", "batchSize: 5", "method: POST", "callback: take", "caFile: /ca",
	} {
		if !strings.Contains(first.String(), want) {
			t.Errorf("no %s in\n%s", want, first.String())
		}
	}
	write(t, path, first.String())
	if s, err = Load([]string{path}, options); err != nil {
		t.Fatal(err)
	}
	if err := s.Print(&second); err != nil || first.String() != second.String() {
		t.Errorf("printed again\n%s\nwant\n%s (%v)", second.String(), first.String(), err)
	}
}
