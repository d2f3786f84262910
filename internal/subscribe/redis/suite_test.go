package redis_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/redis"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// rig is a stream of the shared server, and a client of it.
type rig struct {
	*subscribetest.Task

	client *goredis.Client
	source redis.Source
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
		Task: subscribetest.Named(t, "shop", "orders"), client: client,
		source: redis.Source{URL: "redis://" + addr, Stream: testbroker.Name(), Block: time.Second},
	}
	for n := range entries {
		r.add(fmt.Sprint(n))
	}
	return r
}

func (r *rig) add(body string) string {
	r.T.Helper()
	id, err := r.client.XAdd(subscribetest.Context(r.T), &goredis.XAddArgs{
		Stream: r.source.Stream, Values: []any{"body", body},
	}).Result()
	if err != nil {
		r.T.Fatal(err)
	}
	return id
}

func (r *rig) do(args ...any) any {
	r.T.Helper()
	reply, err := r.client.Do(subscribetest.Context(r.T), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		r.T.Fatal(args, err)
	}
	return reply
}

func (r *rig) open(token int64) *subscribetest.Client { r.T.Helper(); return r.Open(r.source, token) }

func (r *rig) refused(token int64) error { r.T.Helper(); return r.Refused(r.source, token) }

func TestSuite(t *testing.T) { subscribetest.Run(t, topic) }

// topic is a stream behind a link.
func topic(t *testing.T) subscribetest.Topic {
	t.Helper()
	b := testbroker.Shared(t, testbroker.KindRedis)
	link := b.Link()
	client := goredis.NewClient(&goredis.Options{Addr: b.Addr})
	t.Cleanup(func() { _ = client.Close() })
	stream := testbroker.Name()
	letters := "dead-" + stream
	do := func(t *testing.T, commands ...[]any) {
		t.Helper()
		for _, command := range commands {
			if err := client.Do(subscribetest.Context(t), command...).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	// An empty stream has to be there.
	empty := [][]any{{"XADD", stream, "1-1", "body", ""}, {"XTRIM", stream, "MAXLEN", 0}}
	do(t, empty...)
	source := redis.Source{URL: "redis://" + link.Addr, Stream: stream}
	stored := source
	stored.Offsets = subscribe.Store
	return subscribetest.Topic{
		Source:  func(*testing.T) subscribe.Source { return source },
		InStore: func(*testing.T) subscribe.Source { return stored },
		WhenMissing: func(_ *testing.T, missing string, inStore bool) subscribe.Source {
			chosen := source
			if inStore {
				chosen = stored
			}
			chosen.Missing, chosen.Group = missing, ""
			if !inStore {
				chosen.Group = "suite"
			}
			return chosen
		},
		MakeAgain: func(t *testing.T) { t.Helper(); do(t, slices.Concat([][]any{{"DEL", stream}}, empty)...) },
		DropPosition: func(t *testing.T) {
			t.Helper()
			do(t, []any{"XGROUP", "DESTROY", stream, "suite"}, []any{"DEL", "{" + stream + "}:shardctl:suite"})
		},
		Publish: func(t *testing.T, messages ...subscribe.Message) {
			t.Helper()
			pipe := client.Pipeline()
			for _, m := range messages {
				pipe.XAdd(t.Context(), &goredis.XAddArgs{Stream: stream, Values: valuesOf(m)})
			}
			if _, err := pipe.Exec(subscribetest.Context(t)); err != nil {
				t.Error(err)
			}
		},
		Letters: letters,
		ReadLetters: func(t *testing.T, n int) []subscribe.Message {
			t.Helper()
			return readLetters(t, client, letters, n)
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
		Traits:  subscribetest.Traits{Fenced: true},
	}
}

func valuesOf(m subscribe.Message) []any {
	values := []any{"body", m.Body}
	if m.Key != nil {
		values = append(values, "key", m.Key)
	}
	if m.Type != "" {
		values = append(values, "type", m.Type)
	}
	for name, value := range m.Headers {
		values = append(values, name, value)
	}
	return values
}

func readLetters(t *testing.T, client *goredis.Client, stream string, n int) []subscribe.Message {
	t.Helper()
	var letters []subscribe.Message
	for last := "0"; len(letters) < n; {
		streams, err := client.XRead(subscribetest.Context(t), &goredis.XReadArgs{
			Streams: []string{stream, last}, Block: subscribetest.Patience,
		}).Result()
		if err != nil {
			t.Error(err)
			return letters
		}
		for _, e := range streams[0].Messages {
			m := subscribe.Message{Headers: map[string]string{}}
			for name, value := range e.Values {
				text, _ := value.(string)
				switch name {
				case "body":
					m.Body = []byte(text)
				case "key":
					m.Key = []byte(text)
				case "type":
					m.Type = text
				default:
					m.Headers[name] = text
				}
			}
			letters, last = append(letters, m), e.ID
		}
	}
	return letters
}
