package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// runs notes who consumes what.
type runs struct {
	mu     sync.Mutex
	owner  map[string]string // by topic
	tokens map[string]int64
	wrong  []string
	more   chan struct{}
}

func (r *runs) consumer(instance string) tasks.Callback {
	return func(ctx context.Context, run tasks.Run) error {
		r.change(func() {
			if other := r.owner[run.Name]; other != "" {
				r.wrong = append(r.wrong, fmt.Sprintf("%s runs on %s and on %s", run.Name, other, instance))
			}
			if run.Token <= r.tokens[run.Name] {
				r.wrong = append(r.wrong, fmt.Sprintf("%s: token %d after %d", run.Name, run.Token, r.tokens[run.Name]))
			}
			r.owner[run.Name], r.tokens[run.Name] = instance, run.Token
		})
		<-ctx.Done()
		r.change(func() { r.owner[run.Name] = "" })
		return nil
	}
}

func (r *runs) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// share counts the topics of each process.
func (r *runs) share() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, instance := range r.owner {
		if instance != "" {
			n[instance]++
		}
	}
	return n
}

func (r *runs) waitFor(t *testing.T, want map[string]int) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		if fmt.Sprint(r.share()) == fmt.Sprint(want) {
			return
		}
		select {
		case <-r.more:
		case <-limit:
			t.Fatalf("shares %v, want %v", r.share(), want)
		}
	}
}

func TestProcessesShareTheTopics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "topics.db")
	r := &runs{owner: map[string]string{}, tokens: map[string]int64{}, more: make(chan struct{}, 1)}
	topics := make([]string, 10)
	for i := range topics {
		topics[i] = fmt.Sprint("topic-", i)
	}
	start := func(instance string) (stop func()) {
		s := service{
			instance: instance, topics: topics, limit: 8, lease: 2 * time.Second, settle: 300 * time.Millisecond,
			consume: r.consumer(instance),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.run(ctx, path) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	stopA := start("a")
	r.waitFor(t, map[string]int{"a": 8}) // the cap
	stopB := start("b")
	r.waitFor(t, map[string]int{"a": 5, "b": 5})
	stopA()
	r.waitFor(t, map[string]int{"b": 8})
	stopB()
	r.waitFor(t, map[string]int{})
	for _, wrong := range r.wrong {
		t.Error(wrong)
	}
}
