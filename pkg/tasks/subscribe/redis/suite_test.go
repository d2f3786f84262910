package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

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
	// An empty stream has to be there.
	for _, command := range [][]any{{"XADD", stream, "1-1", "body", ""}, {"XTRIM", stream, "MAXLEN", 0}} {
		if err := client.Do(sourcetest.Context(t), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	source := redis.Source{URL: "redis://" + link.Addr, Stream: stream}
	stored := source
	stored.Offsets = redis.Store
	return subscribetest.Topic{
		Source:  func(*testing.T) subscribe.Source { return source },
		InStore: func(*testing.T) subscribe.Source { return stored },
		Publish: func(t *testing.T, messages ...subscribe.Message) {
			t.Helper()
			pipe := client.Pipeline()
			for _, m := range messages {
				pipe.XAdd(t.Context(), &goredis.XAddArgs{Stream: stream, Values: valuesOf(m)})
			}
			if _, err := pipe.Exec(sourcetest.Context(t)); err != nil {
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
		streams, err := client.XRead(sourcetest.Context(t), &goredis.XReadArgs{
			Streams: []string{stream, last}, Block: sourcetest.Patience,
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
