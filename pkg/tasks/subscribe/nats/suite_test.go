package nats_test

import (
	"testing"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

// TestSuite tries streams of each retention.
func TestSuite(t *testing.T) {
	for _, retention := range []jetstream.RetentionPolicy{
		jetstream.LimitsPolicy, jetstream.InterestPolicy, jetstream.WorkQueuePolicy,
	} {
		t.Run(retention.String(), func(t *testing.T) {
			subscribetest.Run(t, func(t *testing.T) subscribetest.Topic {
				t.Helper()
				return streamTopic(t, retention)
			})
		})
	}
}

// TestSuiteOfPlainSubjects tries what has no stream.
func TestSuiteOfPlainSubjects(t *testing.T) { subscribetest.Run(t, subjectTopic) }

func streamTopic(t *testing.T, retention jetstream.RetentionPolicy) subscribetest.Topic {
	t.Helper()
	r := newRig(t)
	link := r.broker.Link()
	r.stream(jetstream.StreamConfig{Subjects: []string{r.name + ".>"}, Retention: retention})
	r.streamNamed("dead-"+r.name, "dead."+r.name)
	source := nats.Source{Servers: []string{link.Addr}, Stream: r.name, Consumer: "suite"}
	if retention == jetstream.InterestPolicy {
		// Without anyone's interest the stream keeps nothing: this one's keeps all.
		_, err := r.js.CreateConsumer(r.within(), r.name, jetstream.ConsumerConfig{
			Durable: "other", AckPolicy: jetstream.AckExplicitPolicy,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return subscribetest.Topic{
		Source: func(*testing.T) subscribe.Source { return source },
		Publish: func(t *testing.T, messages ...subscribe.Message) {
			t.Helper()
			var futures []jetstream.PubAckFuture
			for _, m := range messages {
				f, err := r.js.PublishMsgAsync(messageFor(r.name+".x", m))
				if err != nil {
					t.Error(err)
					return
				}
				futures = append(futures, f)
			}
			for _, f := range futures {
				select {
				case <-f.Ok():
				case err := <-f.Err():
					t.Error(err)
				case <-time.After(sourcetest.Patience):
					t.Error("no confirmation")
				}
			}
		},
		Letters: "dead." + r.name,
		ReadLetters: func(t *testing.T, n int) []subscribe.Message {
			t.Helper()
			return r.readStream(t, "dead-"+r.name, n)
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
		Traits:  subscribetest.Traits{NoKeys: true, Fenced: true, IsQueue: retention == jetstream.WorkQueuePolicy},
	}
}

func subjectTopic(t *testing.T) subscribetest.Topic {
	t.Helper()
	r := newRig(t)
	link := r.broker.Link()
	letters := make(chan *natsio.Msg, 100)
	if _, err := r.conn.ChanSubscribe("dead."+r.name, letters); err != nil {
		t.Fatal(err)
	}
	source := nats.Source{Servers: []string{link.Addr}, Subject: r.name + ".*"}
	return subscribetest.Topic{
		Source: func(*testing.T) subscribe.Source { return source },
		Publish: func(t *testing.T, messages ...subscribe.Message) {
			t.Helper()
			for _, m := range messages {
				if err := r.conn.PublishMsg(messageFor(r.name+".x", m)); err != nil {
					t.Error(err)
				}
			}
			if err := r.conn.FlushTimeout(sourcetest.Patience); err != nil {
				t.Error(err)
			}
		},
		Letters: "dead." + r.name,
		ReadLetters: func(t *testing.T, n int) []subscribe.Message {
			t.Helper()
			var all []subscribe.Message
			for len(all) < n {
				select {
				case msg := <-letters:
					all = append(all, messageIn(msg.Header, msg.Data))
				case <-time.After(sourcetest.Patience):
					return all
				}
			}
			return all
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
		Traits:  subscribetest.Traits{NoKeys: true, Forgets: true, FromNow: true, NoLag: true},
	}
}
