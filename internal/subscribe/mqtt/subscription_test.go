package mqtt

import (
	"net"
	"testing"

	"github.com/eclipse/paho.golang/paho"
)

// What the client still has when the connection is closed is dropped as a whole, and not with gaps.
func TestNothingIsTakenOnceTheConnectionIsClosed(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }() // nothing is written
	s := subscription{conn: &conn{Conn: here, closed: make(chan struct{})}, inbox: newInbox(100, nil)}
	take := func(n int) {
		t.Helper()
		for range n {
			if handled, err := s.received(paho.PublishReceived{Packet: &paho.Publish{}}); !handled || err != nil {
				t.Fatal(handled, err)
			}
		}
	}
	take(2)
	if err := s.conn.Close(); err != nil {
		t.Fatal(err)
	}
	take(50)
	if n := len(s.inbox.waiting); n != 2 {
		t.Errorf("%d messages were taken, want the 2 of before", n)
	}
}
