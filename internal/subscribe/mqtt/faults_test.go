//go:build unix

package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/mqtt"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
	"github.com/shardctl/shardctl/test/testbroker"
)

func source(addr, filter string) mqtt.Source {
	return mqtt.Source{Servers: []string{"mqtt://" + addr}, Filter: filter, QoS: 1}
}

// A new owner takes the session over, with all that was not acknowledged, and the one before learns why it ended.
func TestTakeOver(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	topic := testbroker.Name()
	a := dialBroker(t, broker.Addr)
	task := subscribetest.NewTask(t)
	first := task.Open(source(broker.Addr, topic), 1)
	a.bodies(topic, "a", "b", "c")
	got := first.Take(3)
	first.Ack(got[0])
	again := task.Open(source(broker.Addr, topic), 2).Expect("b c")
	if !again[0].Again || again[0].ID != got[1].ID {
		t.Errorf("%+v came again as %+v", got[1], again[0])
	}
	subscribetest.WantError(t, first.Fails(0), broker.Addr, topic, "has taken the session", "over", "mqtt.clientID")
	if err := first.TryAck(got[1:]...); err == nil {
		t.Error("the Ack of the owner before returned no error")
	}
}

func TestOpenRefuses(t *testing.T) {
	broker := testbroker.Mosquitto(t, "allow_anonymous false")
	s := source(broker.Addr, "orders")
	s.Login = connect.Login{User: "shardctl", Password: "secret"}
	task := subscribetest.NewTask(t)
	subscribetest.WantError(t, task.Refused(s, 1), broker.Addr, "orders", "refuses the user or password")
	broker.Stop()
	subscribetest.WantError(t, task.Refused(s, 1), broker.Addr, "orders", "cannot be reached")
}

// The second server is used where the first one is down.
func TestServers(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	s := source("127.0.0.1:1,mqtt://"+broker.Addr, testbroker.Name())
	subscribetest.NewTask(t).Open(s, 1)
}

// A broker that hangs is noticed within two intervals.
func TestBrokerFrozen(t *testing.T) {
	broker := testbroker.Mosquitto(t)
	s := source(broker.Addr, "orders")
	s.KeepAlive = time.Second
	sub := subscribetest.NewTask(t).Open(s, 1)
	broker.Freeze()
	defer broker.Thaw()
	subscribetest.WantError(t, sub.Fails(0), broker.Addr, "does not answer")
}

// A broker that was stopped in order has the session, with what was not acknowledged.
func TestBrokerRestarted(t *testing.T) {
	broker := testbroker.Mosquitto(t)
	a := dialBroker(t, broker.Addr)
	task := subscribetest.NewTask(t)
	sub := task.Open(source(broker.Addr, "orders"), 1)
	a.bodies("orders", "a", "b", "c")
	sub.Ack(sub.Take(3)[0])
	broker.Stop()
	subscribetest.WantError(t, sub.Fails(0), broker.Addr)
	broker.Start()
	task.Open(source(broker.Addr, "orders"), 1).Expect("b c")
}

// A session that is gone is logged, once; a new one is none that is gone.
func TestSessionGone(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	topic := testbroker.Name()
	task := subscribetest.NewTask(t)
	missing := func() int { return task.Log.Count("Messages may be missing") }
	task.Open(source(broker.Addr, topic), 1).Close()
	if missing() != 0 {
		t.Errorf("a new session is logged: %q", task.Log.All())
	}
	other := testbroker.Mosquitto(t) // it knows nothing of the session
	task.Open(source(other.Addr, topic), 1).Close()
	if missing() != 1 {
		t.Errorf("that the session is gone was logged %d times: %q", missing(), task.Log.All())
	}
	task.Open(source(other.Addr, topic), 1).Close()
	if missing() != 1 {
		t.Errorf("a session that is there is logged: %q", task.Log.All())
	}
}

// When the topic changes, the session is subscribed to the new one only.
func TestTopicChanged(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	a := dialBroker(t, broker.Addr)
	was, now := testbroker.Name(), testbroker.Name()
	task := subscribetest.NewTask(t)
	task.Open(source(broker.Addr, was), 1).Close()
	sub := task.Open(source(broker.Addr, now), 1)
	a.bodies(was, "old")
	a.bodies(now, "new")
	sub.Expect("new")
}

// A filter keeps order by topic, which is the key, and says in a header what the topic is.
func TestFilter(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	a := dialBroker(t, broker.Addr)
	name := testbroker.Name()
	sub := subscribetest.NewTask(t).Open(source(broker.Addr, name+"/+/t"), 1)
	a.publish(name+"/1/t", 1, subscribe.Message{Body: []byte("x"), Headers: map[string]string{"id": "42"}})
	m := sub.Take(1)[0]
	if topic := name + "/1/t"; string(m.Key) != topic || m.Headers["mqtt-topic"] != topic || m.ID != topic+"/42" {
		t.Errorf("%+v", m)
	}
}

// A dead letter that the broker would drop is an error.
func TestLetterToNobody(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	a := dialBroker(t, broker.Addr)
	topic := testbroker.Name()
	sub := subscribetest.NewTask(t).Open(source(broker.Addr, topic), 1)
	a.bodies(topic, "a")
	m := sub.Take(1)[0]
	err := sub.TryDeadLetter(testbroker.Name(), m, subscribe.Why{ID: m.ID, Err: errors.New("500")})
	subscribetest.WantError(t, err, broker.Addr, m.ID, "it has no subscriber")
}

// A packet that is larger than the broker takes is not sent: it would end the connection.
func TestLetterTooLarge(t *testing.T) {
	broker := testbroker.Mosquitto(t, "max_packet_size 1000")
	sub := subscribetest.NewTask(t).Open(source(broker.Addr, "orders"), 1)
	m := subscribe.Message{ID: "orders/1", Body: make([]byte, 2000)}
	err := sub.TryDeadLetter("dead", m, subscribe.Why{ID: m.ID, Err: errors.New("500")})
	subscribetest.WantError(t, err, broker.Addr, "dead", "the broker takes 1000")
}

// Attempts are kept in the checkpoint, up to the message's acknowledgement.
func TestAttemptsInTheCheckpoint(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	topic := testbroker.Name()
	a := dialBroker(t, broker.Addr)
	task := subscribetest.NewTask(t)
	owner := task.Open(source(broker.Addr, topic), 1)
	a.bodies(topic, "a", "b", "c")
	got := owner.Take(3)
	owner.Keep(4, got[0])
	owner.Ack(got[0])
	owner.Keep(2, got[1])
	owner.Close()
	for i, m := range task.Open(source(broker.Addr, topic), 2).Expect("b c") {
		if want := []int{2, 0}[i]; m.Delivered != want {
			t.Errorf("%s was delivered %d times before, want %d", m.ID, m.Delivered, want)
		}
	}
	if value, _ := task.Store.Held(); strings.Count(string(value), ":4") != 0 ||
		strings.Count(string(value), ":2") != 1 {
		t.Errorf("the checkpoint is %s", value)
	}
}

// said is a status, and what is logged. It implements taskrun.Status.
type said struct{ troubles, log subscribetest.Lines }

func (*said) Running()            {}
func (*said) Lag(elect.Lag)       {}
func (s *said) Trouble(err error) { s.troubles.Add(fmt.Sprint(err)) }

// nowhere is a sink and its receiver, for subscriptions without messages.
type nowhere struct{}

func (nowhere) Kind() string                          { return "nowhere" }
func (nowhere) Validate(kind.Use) []decode.FieldError { return nil }
func (nowhere) Print(kind.Use) any                    { return "" }
func (nowhere) Batch() int                            { return 1 }
func (nowhere) Close(context.Context) error           { return nil }

func (nowhere) Open(context.Context, taskrun.Env, string) (subscribe.Receiver, error) {
	return nowhere{}, nil
}

func (nowhere) Deliver(_ context.Context, all []subscribe.Delivery) []error {
	return make([]error, len(all))
}

// run runs a subscription as a task does, until the test ends.
func run(t *testing.T, name string, source mqtt.Source) *said {
	t.Helper()
	task := tasks.Task{Identity: tasks.Identity{Group: "shop", Name: name}}
	s := &said{}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		subscribe.Runner{Source: source, Sink: nowhere{}, InFlight: 1}.Run(ctx, taskrun.Env{
			Identity: task.Identity, Start: tasks.Start{Token: 7}, Grace: time.Second,
			Lease: fakehold.New(task.Key()), Status: s,
			Host: taskrun.Host{T: 20 * time.Second, Environ: func() []string { return nil }},
			Log:  funcr.New(func(_, args string) { s.log.Add(args) }, funcr.Options{}),
		})
	}()
	t.Cleanup(func() {
		cancel(elect.ErrReleased)
		<-done
	})
	return s
}

// Two tasks with one client ID take the session from each other for ever. Both say so, also while they have it.
func TestTwoTasksWithOneClientID(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	id := testbroker.Name()
	var both []*said
	for _, name := range []string{"orders", "invoices"} {
		s := source(broker.Addr, testbroker.Name())
		s.ClientID = id
		both = append(both, run(t, name, s))
	}
	t.Cleanup(func() {
		for _, s := range both {
			t.Logf("one says %q, and logs %q", s.troubles.All(), s.log.All())
		}
	})
	subscribetest.Eventually(t, "that both report what is wrong", func() bool {
		return reports(&both[0].troubles, broker.Addr, id) && reports(&both[1].troubles, broker.Addr, id) &&
			both[0].log.Count("that this task has not made")+both[1].log.Count("that this task has not made") > 0
	})
}

// reports says whether the troubles of a task are reported as such that last, with the broker and the session.
func reports(troubles *subscribetest.Lines, addr, id string) bool {
	_, lasting, ok := strings.Cut(strings.Join(troubles.All(), "\n"), "keeps breaking soon after it is opened")
	return ok && !strings.Contains(lasting, "<nil>") &&
		strings.Contains(lasting, "has taken the session \""+id+"\" over") &&
		strings.Contains(lasting, addr) && strings.Contains(lasting, "mqtt.clientID")
}
