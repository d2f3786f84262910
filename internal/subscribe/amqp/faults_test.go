//go:build unix

package amqp_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/amqp"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
)

// rig is a broker with a channel to it.
type rig struct {
	admin
	addr string
}

func newRig(t *testing.T) rig {
	t.Helper()
	addr := testbroker.Shared(t, testbroker.KindRabbitMQ).Addr
	return rig{dialBroker(t, addr), addr}
}

func (r rig) source(queue string) amqp.Source {
	return amqp.Source{URL: "amqp://" + r.addr, Queue: queue}
}

func (r rig) stream(queue string, s amqp.Stream) amqp.Source {
	source := r.source(queue)
	source.Stream = &s
	return source
}

// Each of these is refused with an error that names the broker and the queue, and says what to do.
func TestOpenRefuses(t *testing.T) {
	r := newRig(t)
	queue, stream := r.declare("classic"), r.declare("stream")
	for name, c := range map[string]struct {
		source amqp.Source
		says   []string
	}{
		"unknown queue": {r.source("nowhere"), []string{`queue "nowhere"`, "declare it"}},
		"a stream without stream": {
			r.source(stream), []string{"is a stream: set amqp.stream"},
		},
		"a queue with stream": {
			r.stream(queue, amqp.Stream{}), []string{"is not a stream: leave amqp.stream out"},
		},
		"wrong password": {
			amqp.Source{URL: "amqp://guest:secret@" + r.addr, Queue: queue},
			[]string{"refuses the user or password"},
		},
		"wrong password of its own": {
			amqp.Source{URL: "amqp://" + r.addr, Login: connect.Login{User: "guest", Password: "secret"}, Queue: queue},
			[]string{"refuses the user or password"},
		},
		"unknown virtual host": {
			amqp.Source{URL: "amqp://" + r.addr + "/nowhere", Queue: queue}, []string{`virtual host "nowhere"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			subscribetest.WantError(t, subscribetest.NewTask(t).Refused(c.source, 1), append(c.says, r.addr)...)
		})
	}
}

// A queue is not made by asking for it.
func TestDeclaresNothing(t *testing.T) {
	r := newRig(t)
	name := testbroker.Name()
	subscribetest.WantError(t, subscribetest.NewTask(t).Refused(r.source(name), 1), name)
	if _, err := r.QueueDeclarePassive(name, false, false, false, false, nil); err == nil {
		t.Error("the queue was made")
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	source := amqp.Source{URL: "amqp://guest:secret@" + addr, Queue: "orders"}
	subscribetest.WantError(t, subscribetest.NewTask(t).Refused(source, 1), addr, `queue "orders"`, "cannot be reached")
}

// A queue has one consumer, whatever its type, and the next one in line gets it when that one closes.
func TestOneConsumer(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			queue := r.declare(kind)
			r.bodies(queue, "a", "b", "c")
			task := subscribetest.NewTask(t)
			first := task.Open(r.source(queue), 1)
			first.Expect("a b c")
			subscribetest.WantError(t, task.Refused(r.source(queue), 2), "another consumer holds the queue", queue)
			first.Close()
			second := task.Open(r.source(queue), 3).Expect("a b c")
			if !second[0].Again {
				t.Error("Again is not set on a message that was given before")
			}
		})
	}
}

// What was not acknowledged comes again in its order after kill -9 of the broker.
func TestBrokerKilled(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	broker := testbroker.RabbitMQ(t)
	queue, stream := testbroker.Name(), testbroker.Name()
	a := dialBroker(t, broker.Addr)
	a.declareAs(queue, "quorum")
	a.declareAs(stream, "stream")
	// A broker killed within seconds of its first stream has lost it. After an orderly stop it has not.
	broker.Stop()
	broker.Start()
	a = dialBroker(t, broker.Addr)
	r := rig{a, broker.Addr}
	for _, source := range []amqp.Source{r.source(queue), r.stream(stream, amqp.Stream{})} {
		task := subscribetest.NewTask(t)
		sub := task.OpenSoon(source, 1) // the broker has just started
		a.bodies(source.Queue, "a", "b", "c", "d")
		sub.Ack(sub.Take(4)[:2]...)
		broker.Kill()
		_ = sub.Fails(0)
		_ = sub.TryClose() // its connection has ended
		subscribetest.WantError(t, task.Refused(source, 2), broker.Addr, "cannot be reached")
		broker.Start()
		a = dialBroker(t, broker.Addr)
		// A stream whose node has started shows nothing until the next message is published.
		a = a.untilTaken(broker.Addr, source.Queue, "e")
		sub = task.OpenSoon(source, 3)
		a.bodies(source.Queue, "f")
		var got []subscribe.Message
		for !strings.HasSuffix(subscribetest.Texts(got), "f") {
			got = append(got, sub.Take(1)...)
		}
		// A quorum queue that is killed may have lost acknowledgements of its last moment.
		text := subscribetest.Texts(slices.CompactFunc(got, func(a, b subscribe.Message) bool {
			return string(a.Body) == "e" && string(b.Body) == "e"
		}))
		if text != "c d e f" && (source.Stream != nil || text != "b c d e f" && text != "a b c d e f") {
			t.Fatalf("received %q, want c d e f", text)
		}
	}
}

// A broker that hangs is noticed by its heartbeats, and every call returns with its context before that.
func TestBrokerFrozen(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	broker := testbroker.RabbitMQ(t)
	a := dialBroker(t, broker.Addr)
	a.declareAs("orders", "classic")
	a.bodies("orders", "a", "b")
	source := amqp.Source{URL: "amqp://" + broker.Addr + "?heartbeat=1", Queue: "orders"}
	task := subscribetest.NewTask(t)
	sub := task.Open(source, 1)
	got := sub.Take(2)
	broker.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sub.Sub.Ack(ctx, got[:1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Ack at a broker that hangs: %v", err)
	}
	err := sub.Fails(0)
	broker.Thaw()
	subscribetest.WantError(t, err, broker.Addr, `queue "orders"`)
	_ = sub.TryClose() // its connection has ended
	// The acknowledgement may have arrived when the broker went on.
	if text := subscribetest.Texts(task.OpenSoon(source, 2).Take(1)); text != "a" && text != "b" {
		t.Errorf("received %q, want a or b", text)
	}
}

// An Ack that its context has ended is finished by another one.
func TestAckTwice(t *testing.T) {
	r := newRig(t)
	link := testbroker.Link(t, r.addr)
	queue := r.declare("classic")
	r.bodies(queue, "a", "b")
	source := amqp.Source{URL: "amqp://" + link.Addr, Queue: queue}
	sub := subscribetest.NewTask(t).Open(source, 1)
	got := sub.Take(2)
	link.Block()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sub.Sub.Ack(ctx, got); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Ack over a blocked link: %v", err)
	}
	link.Unblock()
	sub.Ack(got...)
	r.bodies(queue, "c")
	sub.Expect("c")
}

func TestQueueDeleted(t *testing.T) {
	for _, kind := range []string{"classic", "quorum", "stream"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			source := r.source(r.declare(kind))
			if kind == "stream" {
				source.Stream = &amqp.Stream{}
			}
			sub := subscribetest.NewTask(t).Open(source, 1)
			if _, err := r.QueueDelete(source.Queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			subscribetest.WantError(t, sub.Fails(0), source.Queue, "the queue was deleted")
		})
	}
}

// why is the reason of a dead letter.
func why(m subscribe.Message) subscribe.Why {
	return subscribe.Why{
		Identity: subscribetest.NewIdentity(), Source: "amqp:q", ID: m.ID, Attempts: 3,
		Err: errors.New("the receiver answered 500"),
	}
}

// A dead letter that no queue takes is an error, and does not keep the next one from its queue.
func TestLetterReturned(t *testing.T) {
	r := newRig(t)
	queue, letters := r.declare("classic"), r.declare("quorum")
	full := r.declare("classic", "x-max-length", int32(0), "x-overflow", "reject-publish")
	r.bodies(queue, "a")
	sub := subscribetest.NewTask(t).Open(r.source(queue), 1)
	m := sub.Take(1)[0]
	err := sub.TryDeadLetter("nowhere", m, why(m))
	subscribetest.WantError(t, err, `queue "nowhere"`, m.ID, "declare the queue")
	subscribetest.WantError(t, sub.TryDeadLetter(full, m, why(m)), full, "refused it")
	if err := sub.TryDeadLetter(letters, m, why(m)); err != nil {
		t.Fatal(err)
	}
	got := r.read(letters, 1)[0]
	if string(got.Body) != "a" || got.DeliveryMode != 2 || got.Headers["Shardctl-Dead-Attempts"] != "3" ||
		got.MessageId == "" {
		t.Errorf("the dead letter is %+v", got)
	}
}

// A broker short of memory takes no dead letter, which is reported; it takes acknowledgements all the same.
func TestBrokerBlocked(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	broker := testbroker.RabbitMQ(t, "vm_memory_high_watermark.absolute = 1MB")
	a := dialBroker(t, broker.Addr)
	a.declareAs("orders", "classic")
	a.declareAs("dead", "classic")
	sub := subscribetest.NewTask(t).Open(rig{a, broker.Addr}.source("orders"), 1)
	m := subscribe.Message{ID: "orders/1", Body: []byte("a")}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		subscribetest.WantError(t, sub.Sub.DeadLetter(ctx, "dead", m, why(m)), `queue "dead"`, "deadline")
	}
	subscribetest.Eventually(t, "that something is reported", func() bool { return len(sub.Troubles.All()) > 0 })
	subscribetest.WantError(t, errors.New(sub.Troubles.All()[0]), broker.Addr, "takes no messages now")
	sub.Ack() // confirmed by the broker
	sub.Close()
}

// A message without message-id has an ID that no other message has, in this connection or the next.
func TestUnnamed(t *testing.T) {
	r := newRig(t)
	queue := r.declare("classic")
	task, seen := subscribetest.NewTask(t), map[string]bool{}
	for token := range int64(2) {
		for range 2 {
			publishPlain(t, r.admin, queue)
		}
		sub := task.Open(r.source(queue), token+1)
		for _, m := range sub.Take(2) {
			if seen[m.ID] || !strings.HasPrefix(m.ID, queue+"#") {
				t.Errorf("the ID is %q, after %v", m.ID, seen)
			}
			seen[m.ID] = true
			sub.Ack(m)
		}
		sub.Close()
	}
}

// A dead letter that is larger than the broker takes stays where it is, and the error says what to raise.
func TestLetterTooLarge(t *testing.T) {
	broker := testbroker.RabbitMQ(t, "max_message_size = 2000")
	a := dialBroker(t, broker.Addr)
	queue, letters := a.declare("classic"), a.declare("classic")
	r := rig{a, broker.Addr}
	a.bodies(queue, "a")
	task := subscribetest.NewTask(t)
	sub := task.Open(r.source(queue), 1)
	m := sub.Take(1)[0]
	large := m
	large.Body = make([]byte, 3000)
	err := sub.TryDeadLetter(letters, large, why(m))
	subscribetest.WantError(t, err, broker.Addr, "larger than the broker allows", "max_message_size")
	_ = sub.TryClose() // the broker may have ended its channel
	task.Open(r.source(queue), 2).Expect("a")
}
