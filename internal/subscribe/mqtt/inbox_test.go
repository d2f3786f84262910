package mqtt

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
)

// eager is a broker for one client. It answers requests in their order, behind all that it was told to send, and heeds
// no bound of what is in flight. On a subscription it first sends what is retained.
type eager struct {
	t        *testing.T
	source   Source
	retained []*packets.Publish

	mu   sync.Mutex
	conn net.Conn
	acks chan uint16
}

func newEager(t *testing.T, retained ...*packets.Publish) *eager {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &eager{
		t: t, retained: retained, acks: make(chan uint16, 1000),
		source: Source{Servers: []string{"mqtt://" + listener.Addr().String()}, Filter: "sensors/#", QoS: 1},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err == nil {
			e.serve(conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	return e
}

// serve answers until the client leaves.
func (e *eager) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	e.conn = conn
	for {
		p, err := packets.ReadPacket(conn)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				e.t.Log(err)
			}
			return
		}
		switch c := p.Content.(type) {
		case *packets.Connect:
			e.send(&packets.Connack{Properties: &packets.Properties{}})
		case *packets.Subscribe:
			e.publish(e.retained...)
			e.send(&packets.Suback{PacketID: c.PacketID, Reasons: []byte{1}, Properties: &packets.Properties{}})
		case *packets.Publish:
			e.send(&packets.Puback{PacketID: c.PacketID, Properties: &packets.Properties{}})
		case *packets.Puback:
			e.acks <- c.PacketID
		case *packets.Pingreq:
			e.send(&packets.Pingresp{})
		}
	}
}

func (e *eager) send(p packets.Packet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := p.WriteTo(e.conn); err != nil {
		e.t.Log(err) // the client has left
	}
}

func (e *eager) publish(all ...*packets.Publish) {
	for _, p := range all {
		e.send(p)
	}
}

// numbered are messages with that quality of service, numbered from first.
func numbered(first, n int, qos byte) (all []*packets.Publish) {
	for i := first; i < first+n; i++ {
		p := &packets.Publish{
			Topic: "sensors/1", QoS: qos, Payload: []byte(fmt.Sprint(i)), Properties: &packets.Properties{},
		}
		if qos > 0 {
			p.PacketID = uint16(i)
		}
		all = append(all, p)
	}
	return all
}

// However much comes that no one has received, requests are answered: those of Open, of Ack and of DeadLetter, which
// come behind it, and pings. None of what came is lost.
func TestRequestsAreAnsweredBehindAFlood(t *testing.T) {
	const many = 3_000 // more than may be in flight, which is 64, and than the client has space for
	for _, qos := range []byte{0, 1} {
		t.Run(fmt.Sprintf("quality of service %d", qos), func(t *testing.T) {
			broker := newEager(t, numbered(1, many, qos)...)
			sub := subscribetest.NewTask(t).Open(broker.source, 1)
			first := sub.Take(1)
			broker.publish(numbered(many+1, many, qos)...)
			if err := sub.TryDeadLetter("dead", first[0], subscribe.Why{Err: errors.New("500")}); err != nil {
				t.Fatalf("DeadLetter: %v", err)
			}
			sub.Ack(first[0])
			rest := sub.Take(2*many - 1)
			for i, m := range rest {
				if string(m.Body) != fmt.Sprint(i+2) {
					t.Fatalf("message %d is %q", i+2, m.Body)
				}
			}
			if qos > 0 && <-broker.acks != 1 {
				t.Error("another message was acknowledged")
			}
		})
	}
}

// Messages without an acknowledgement are dropped beyond a bound, the newest, and that is said once, as is its end.
func TestMessagesWithoutAcknowledgementAreBounded(t *testing.T) {
	s := &subscription{
		conn: &conn{closed: make(chan struct{})}, ended: make(chan struct{}), where: "mqtt broker b",
	}
	s.inbox = newInbox(2, s.drops)
	var troubles []error
	s.session.Trouble = func(err error) { troubles = append(troubles, err) }
	receive := func(qos byte, n int) {
		for range n {
			_, _ = s.received(paho.PublishReceived{Packet: &paho.Publish{QoS: qos, Payload: make([]byte, 1<<20)}})
		}
	}
	receive(0, 100)
	receive(1, 2)
	kept := 0
	for {
		messages, err := s.Receive(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if kept += len(messages); messages[len(messages)-1].Ref.(*delivery).QoS == 1 {
			break
		}
	}
	if most := inboxBytes>>20 + 2; kept < most-2 || kept > most {
		t.Errorf("%d messages of 1 MiB came, want about %d", kept, most)
	}
	if len(troubles) != 2 || !errors.Is(troubles[0], errTooFast) || troubles[1] != nil {
		t.Errorf("it said %v, want once that messages are dropped, and that none are any more", troubles)
	}
	receive(0, 1)
	if messages, err := s.Receive(t.Context(), 10); len(messages) != 1 || err != nil {
		t.Errorf("afterwards came %d messages and %v", len(messages), err)
	}
}

// A broker that heeds no bound for messages with an acknowledgement is left: none of them may be dropped.
func TestBrokerThatHeedsNoBound(t *testing.T) {
	i := newInbox(3, nil)
	var err error
	added := 0
	for ; err == nil; added++ {
		err = i.add(&paho.Publish{QoS: 1, Payload: make([]byte, 1<<20)})
	}
	if !errors.Is(err, errTooMany) || added > 40 {
		t.Errorf("%v after %d messages", err, added)
	}
	large := newInbox(3, nil)
	for range 3 { // as many as it may send, however large they are
		if err := large.add(&paho.Publish{QoS: 1, Payload: make([]byte, inboxBytes)}); err != nil {
			t.Error(err)
		}
	}
	if taken := large.take(2); len(taken) != 2 || large.asked.messages != 1 {
		t.Errorf("%d taken, left is %+v", len(taken), large.asked)
	}
}
