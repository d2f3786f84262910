//go:build unix

package mqtt_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/mqtt"
)

func source(addr, filter string) mqtt.Source {
	return mqtt.Source{Servers: []string{"mqtt://" + addr}, Filter: filter, QoS: 1}
}

// A new owner takes the session over, with all that was not acknowledged, and the one before is told why it ended.
func TestTakeOver(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	topic := testbroker.Name()
	a := connect(t, broker.Addr)
	s := session(t)
	first := open(t, source(broker.Addr, topic), s)
	a.bodies(topic, "a", "b", "c")
	got := take(t, first, 3)
	ack(t, first, got[0])
	s.Token = 2
	second := open(t, source(broker.Addr, topic), s)
	again := take(t, second, 2)
	wantTexts(t, again, "b c")
	if !again[0].Again || again[0].ID != got[1].ID {
		t.Errorf("%+v came again as %+v", got[1], again[0])
	}
	wantError(t, receiveError(t, first), broker.Addr, topic, "has taken the session", "over", "mqtt.clientID")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := first.Ack(ctx, got[1:]); err == nil {
		t.Error("the Ack of the owner before returned no error")
	}
}

func TestOpenRefuses(t *testing.T) {
	broker := testbroker.Mosquitto(t, "allow_anonymous false")
	s := source(broker.Addr, "orders")
	s.Login = mqtt.Login{User: "shardctl", Password: "secret"}
	_, err := tryOpen(t, s, session(t))
	wantError(t, err, broker.Addr, "orders", "refuses the user or password")
	broker.Stop()
	_, err = tryOpen(t, s, session(t))
	wantError(t, err, broker.Addr, "orders", "cannot be reached")
}

// The second server is used where the first one is down.
func TestServers(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	s := source("127.0.0.1:1,mqtt://"+broker.Addr, testbroker.Name())
	open(t, s, session(t))
}

// A broker that hangs is noticed within two intervals.
func TestBrokerFrozen(t *testing.T) {
	broker := testbroker.Mosquitto(t)
	s := source(broker.Addr, "orders")
	s.KeepAlive = time.Second
	sub := open(t, s, session(t))
	broker.Freeze()
	defer broker.Thaw()
	wantError(t, receiveError(t, sub), broker.Addr, "does not answer")
}

// A broker that was stopped in order has the session, with what was not acknowledged.
func TestBrokerRestarted(t *testing.T) {
	broker := testbroker.Mosquitto(t)
	a := connect(t, broker.Addr)
	s := session(t)
	sub := open(t, source(broker.Addr, "orders"), s)
	a.bodies("orders", "a", "b", "c")
	ack(t, sub, take(t, sub, 3)[0])
	broker.Stop()
	wantError(t, receiveError(t, sub), broker.Addr)
	broker.Start()
	wantTexts(t, take(t, open(t, source(broker.Addr, "orders"), s), 2), "b c")
}

// A session that is gone is told, once; a new one is none that is gone.
func TestSessionGone(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	topic := testbroker.Name()
	s := session(t)
	var mu sync.Mutex
	var lines []string
	s.Log = funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	missing := func() int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(strings.Join(lines, "\n"), "Messages may be missing")
	}
	open(t, source(broker.Addr, topic), s)
	if missing() != 0 {
		t.Errorf("a new session is told: %q", lines)
	}
	other := testbroker.Mosquitto(t) // it knows nothing of the session
	open(t, source(other.Addr, topic), s)
	if missing() != 1 {
		t.Errorf("that the session is gone was told %d times: %q", missing(), lines)
	}
	open(t, source(other.Addr, topic), s)
	if missing() != 1 {
		t.Errorf("a session that is there is told: %q", lines)
	}
}

// When the topic changes, the session is subscribed to the new one only.
func TestTopicChanged(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	a := connect(t, broker.Addr)
	was, now := testbroker.Name(), testbroker.Name()
	s := session(t)
	open(t, source(broker.Addr, was), s)
	sub := open(t, source(broker.Addr, now), s)
	a.bodies(was, "old")
	a.bodies(now, "new")
	wantTexts(t, take(t, sub, 1), "new")
}

// A filter keeps order by topic, which is the key, and says in a header what the topic is.
func TestFilter(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	a := connect(t, broker.Addr)
	name := testbroker.Name()
	sub := open(t, source(broker.Addr, name+"/+/t"), session(t))
	a.publish(name+"/1/t", 1, subscribe.Message{Body: []byte("x"), Headers: map[string]string{"id": "42"}})
	m := take(t, sub, 1)[0]
	if topic := name + "/1/t"; string(m.Key) != topic || m.Headers["mqtt-topic"] != topic || m.ID != topic+"/42" {
		t.Errorf("%+v", m)
	}
}

// A dead letter that the broker would drop is an error.
func TestLetterToNobody(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	a := connect(t, broker.Addr)
	topic := testbroker.Name()
	sub := open(t, source(broker.Addr, topic), session(t))
	a.bodies(topic, "a")
	m := take(t, sub, 1)[0]
	err := sub.DeadLetter(t.Context(), testbroker.Name(), m, subscribe.Why{ID: m.ID, Err: errors.New("500")})
	wantError(t, err, broker.Addr, m.ID, "nobody is subscribed")
}

// A packet that is larger than the broker takes is not sent: it would end the connection.
func TestLetterTooLarge(t *testing.T) {
	broker := testbroker.Mosquitto(t, "max_packet_size 1000")
	sub := open(t, source(broker.Addr, "orders"), session(t))
	m := subscribe.Message{ID: "orders/1", Body: make([]byte, 2000)}
	err := sub.DeadLetter(t.Context(), "dead", m, subscribe.Why{ID: m.ID, Err: errors.New("500")})
	wantError(t, err, broker.Addr, "dead", "the broker takes 1000")
}
