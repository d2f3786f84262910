package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
)

// limit is how long anything may take.
const limit = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// rig is a stream of the shared server, and a client of it.
type rig struct {
	t      *testing.T
	client *goredis.Client
	source redis.Source
	kept   *kept
	lines  *lines
}

// newRig makes a stream with so many entries, each with the body "n".
func newRig(t *testing.T, entries int) *rig {
	t.Helper()
	b := testbroker.Shared(t, testbroker.KindRedis)
	return rigAt(t, b.Addr, entries)
}

func rigAt(t *testing.T, addr string, entries int) *rig {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	r := &rig{
		t: t, client: client, kept: &kept{}, lines: &lines{},
		source: redis.Source{URL: "redis://" + addr, Stream: testbroker.Name(), Block: time.Second},
	}
	for n := range entries {
		r.add(fmt.Sprint(n))
	}
	return r
}

func (r *rig) add(body string) string {
	r.t.Helper()
	id, err := r.client.XAdd(within(r.t), &goredis.XAddArgs{
		Stream: r.source.Stream, Values: []any{"body", body},
	}).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) do(args ...any) any {
	r.t.Helper()
	reply, err := r.client.Do(within(r.t), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		r.t.Fatal(args, err)
	}
	return reply
}

func (r *rig) session(name string, token int64) subscribe.Session {
	return subscribe.Session{
		Identity: tasks.Identity{Group: "shop", Name: name}, Token: token, InFlight: 10, Checkpoint: r.kept,
		Expand:  func(_, text string) (string, error) { return text, nil },
		Trouble: func(error) {}, Log: r.lines.logger(),
	}
}

// open opens the subscription of task orders with a token. It is closed with the test, unless close was called.
func (r *rig) open(token int64) *subscription {
	r.t.Helper()
	sub, err := r.source.Open(within(r.t), r.session("orders", token))
	if err != nil {
		r.t.Fatal(err)
	}
	s := &subscription{t: r.t, Subscription: sub}
	r.t.Cleanup(s.close)
	return s
}

// refused is the error of an Open that must fail.
func (r *rig) refused(token int64) error {
	r.t.Helper()
	sub, err := r.source.Open(within(r.t), r.session("orders", token))
	if err == nil {
		_ = sub.Close(within(r.t))
		r.t.Fatal("opened")
	}
	return err
}

type subscription struct {
	subscribe.Subscription
	t    *testing.T
	once sync.Once
}

func (s *subscription) close() {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			s.t.Error(err)
		}
	})
}

// read receives n messages.
func (s *subscription) read(n int) []subscribe.Message {
	s.t.Helper()
	var all []subscribe.Message
	for len(all) < n {
		some, err := s.Receive(within(s.t), n-len(all))
		if err != nil {
			s.t.Fatalf("after %d messages: %v", len(all), err)
		}
		all = append(all, some...)
	}
	return all
}

func (s *subscription) ack(messages []subscribe.Message) {
	s.t.Helper()
	if err := s.Ack(within(s.t), messages); err != nil {
		s.t.Fatal(err)
	}
}

func (s *subscription) lag() subscribe.Lag {
	s.t.Helper()
	lag, err := s.Subscription.(subscribe.Lagging).Lag(within(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return lag
}

func bodies(messages []subscribe.Message) string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = string(m.Body)
	}
	return strings.Join(all, " ")
}

// kept is a checkpoint in memory.
type kept struct {
	mu    sync.Mutex
	value []byte
}

func (k *kept) Value(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.value), nil
}

func (k *kept) SetValue(_ context.Context, value []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value = slices.Clone(value)
	return nil
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{})
}

func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// wants checks that an error has all parts.
func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want it to have %q", err, part)
		}
	}
}
