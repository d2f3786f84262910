package subscribe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/function"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // the store of the configurations below
	"github.com/shardctl/shardctl/pkg/tasks"
	supervised "github.com/shardctl/shardctl/test/taskrig"
)

// The one line by which a program gets another kind.
func withMem(t *testing.T, b *memsource.Broker) *kind.Set[kind.Kind] {
	t.Helper()
	all, err := kind.NewSet[kind.Kind](append(kinds.All().All(),
		subscribe.NewKind(memsource.Kind(b), kinds.Sinks()...))...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// loadMem loads a configuration whose tasks may subscribe to topics in memory.
func loadMem(t *testing.T, b *memsource.Broker, taskList string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	text := "store: {uri: 'sqlite:a.db'}\ngroups:\n  - name: g\n    tasks:\n" + taskList
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	noEnv := func(string) (string, bool) { return "", false }
	return config.Load([]string{path}, config.Options{Env: noEnv, Kinds: withMem(t, b)})
}

const memTasks = `      - name: orders-{eu,us}
        mem: {topic: $(SHARDCTL_TASK)}
        deliver: {callback: take}
        retry: {attempts: 3, backoff: {initial: 1ms, max: 10ms}, deadLetter: {topic: dead}}
        maxInFlight: 4
`

// taker is a callback that notes what it takes.
type taker struct {
	broker *memsource.Broker

	mu    sync.Mutex
	calls int
	taken map[string][]string // bodies of each key, by their first delivery
	seen  map[string]bool
}

// take refuses poison for ever and others now and then, and cuts the connection in between.
func (k *taker) take(_ context.Context, d subscribe.Delivery, run tasks.Run) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if d.Token != run.Token || d.Token == 0 {
		return fmt.Errorf("the token is %d, that of the run %d", d.Token, run.Token)
	}
	body := string(d.Body)
	if !k.seen[d.ID] {
		k.seen[d.ID] = true
		lane := run.Name + "/" + string(d.Key)
		k.taken[lane] = append(k.taken[lane], body)
	}
	switch {
	case k.calls%60 == 0:
		k.broker.Cut()
		return nil
	case strings.Contains(body, "poison"), k.calls%7 == 0 && d.Attempt == 1:
		return errors.New("not now")
	}
	return nil
}

// A kind that only this test knows: nothing of the configuration, of the runner or of the sinks knows its name.
func TestAKindOfATestRunsFromAConfiguration(t *testing.T) {
	b := memsource.New()
	b.Create("dead", 1)
	settings, err := loadMem(t, b, memTasks)
	if err != nil {
		t.Fatal(err)
	}
	k := &taker{broker: b, taken: map[string][]string{}, seen: map[string]bool{}}
	registry := &tasks.Registry{}
	if err := function.Handle(registry, "take", k.take); err != nil {
		t.Fatal(err)
	}
	s := supervised.New(t, func(c *supervisor.Config) { c.Registry = registry })
	want := map[string][]string{}
	for _, task := range settings.Groups[0].Tasks {
		b.Create(task.Name, 3)
		publishTo(t, b, task.Name, want)
		stop, done := supervised.Run(t, s, task, supervised.Hold(task))
		waitAcked(t, b, task)
		stop(elect.ErrReleased)
		supervised.Ended(t, done, "the end of "+task.Name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for lane, bodies := range want {
		if !slices.Equal(k.taken[lane], bodies) {
			t.Errorf("%s took %v, want %v", lane, k.taken[lane], bodies)
		}
	}
	dead, err := b.Messages("dead")
	if err != nil || len(dead) < 2 {
		t.Fatalf("%d dead letters, want at least 2: %v", len(dead), err)
	}
	for _, m := range dead {
		if h := m.Headers; !strings.Contains(string(m.Body), "poison") || h["Shardctl-Dead-Attempts"] != "3" ||
			h["Shardctl-Dead-Error"] != "not now" || !strings.HasPrefix(h["Shardctl-Dead-Source"], "mem:orders-") {
			t.Errorf("dead letter %q with headers %q", m.Body, h)
		}
	}
}

// publishTo publishes messages of three keys, with poison among them.
func publishTo(t *testing.T, b *memsource.Broker, topic string, want map[string][]string) {
	t.Helper()
	for i := range 150 {
		key := string(rune('a' + i%3))
		body := fmt.Sprintf("%s-%03d", topic, i)
		if i == 70 {
			body += " poison"
		}
		want[topic+"/"+key] = append(want[topic+"/"+key], body)
		if err := b.Publish(topic, subscribe.Message{Key: []byte(key), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
}

// waitAcked waits until all of a task's topic is acknowledged.
func waitAcked(t *testing.T, b *memsource.Broker, task tasks.Task) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), supervised.Patience)
	defer cancel()
	if err := b.WaitAcked(ctx, task.Name, string(task.Key()), 150); err != nil {
		t.Fatal(err)
	}
}

// What the schema fragment, Parse and Validate of the kind refuse is reported at its place, beside what others refuse.
func TestAKindOfATestIsChecked(t *testing.T) {
	_, err := loadMem(t, memsource.New(), `      - name: a
        mem: {topik: x}
        deliver: {callback: take}
      - name: b
        mem: {topic: x, offsets: store, single: true}
        deliver: {callback: take}
      - name: c
        mem: {topic: x, lost: sometimes}
        deliver: {callback: take}
      - name: d
        mem: {topic: x}
        deliver: {function: take}
      - name: e
        mem: {topic: x}
        deliver: {callback: take}
        order: strict
      - name: f
        exec: [sleep, "1"]
        order: key
`)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		":6:", "topik", "mem.single: cannot be true with offsets: store", "mem.lost", "stop or earliest", "function",
		`tasks[4].order: is "strict", must be key, none or partition`, "tasks[5].order:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

// What is printed is the whole task, and loads again as the same.
func TestAKindOfATestIsPrinted(t *testing.T) {
	b := memsource.New()
	settings, err := loadMem(t, b, memTasks)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := settings.Print(&printed); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "printed.yaml")
	if err := os.WriteFile(path, printed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	noEnv := func(string) (string, bool) { return "", false }
	again, err := config.Load([]string{path}, config.Options{Env: noEnv, Kinds: withMem(t, b)})
	if err != nil {
		t.Fatalf("Load of what was printed: %v\n%s", err, printed.String())
	}
	for i, task := range settings.Groups[0].Tasks {
		if other := again.Groups[0].Tasks[i]; task.Runner.NeedsRestart(other.Runner) {
			t.Errorf("%s differs:\n%+v\n%+v", task.Name, task.Runner, other.Runner)
		}
	}
}

// A source that says stop ends the task as failed, and the message says what to do.
func TestTruncatedTopicStopsTheTask(t *testing.T) {
	b := memsource.New()
	b.Create("orders", 1)
	settings, err := loadMem(t, b, `      - name: a
        mem: {topic: orders}
        deliver: {callback: take}
`)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := b.Publish("orders", subscribe.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Truncate("orders", 2); err != nil {
		t.Fatal(err)
	}
	registry := &tasks.Registry{}
	err = function.Handle(registry, "take", func(context.Context, subscribe.Delivery, tasks.Run) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s := supervised.New(t, func(c *supervisor.Config) { c.Registry = registry })
	task := settings.Groups[0].Tasks[0]
	hold := supervised.Hold(task)
	_, done := supervised.Run(t, s, task, hold)
	if err := supervised.Wait(t, done, "the end"); !errors.Is(err, taskrun.ErrDone) {
		t.Errorf("the run returned %v", err)
	}
	if got := hold.Status(); got.Outcome == nil || got.Outcome.Succeeded ||
		!strings.Contains(got.Outcome.Error, "2 messages of partition 0 were truncated") {
		t.Errorf("the outcome is %+v", got.Outcome)
	}
}
