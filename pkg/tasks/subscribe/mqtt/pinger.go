package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
)

// pinger asks the broker whether it is there: at an interval, and behind acknowledgements, which the broker does not
// confirm. It reads a connection's packets in their order, so an answer says that all before has arrived. It implements
// paho.Pinger, and its methods may be called concurrently.
type pinger struct {
	asking sync.Mutex // for one request after the other
	conn   *conn
	fail   func(error) // ends the subscription: closing the connection would give it another reason
	mu     sync.Mutex  // guards what follows
	sent   uint64
	heard  uint64
	answer chan struct{} // closed and replaced at each answer
}

var errSilent = errors.New("the broker is connected and does not answer: check whether it hangs, and the network to it")

func newPinger(c *conn, fail func(error)) *pinger {
	return &pinger{conn: c, fail: fail, answer: make(chan struct{})}
}

// Run asks every keepAlive seconds, until ctx ends or the broker is silent for as long.
func (p *pinger) Run(ctx context.Context, _ net.Conn, keepAlive uint16) error {
	interval := time.Duration(keepAlive) * time.Second
	if interval == 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, interval)
		err := p.ask(limited)
		cancel()
		if err != nil && ctx.Err() == nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = errSilent
			}
			p.fail(err)
			return err
		}
	}
}

// ask sends a request and waits for its answer.
func (p *pinger) ask(ctx context.Context) error {
	number, failed := p.send()
	for {
		p.mu.Lock()
		heard, answer := p.heard >= number, p.answer
		p.mu.Unlock()
		if heard {
			return nil
		}
		select {
		case <-answer:
		case err := <-failed:
			if err != nil {
				return fmt.Errorf("ask the broker: %w", err)
			}
			failed = nil
		case <-p.conn.closed:
			return errClosed
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// send sends a request in the background, since a blocked connection may take no bytes, and says which it is.
func (p *pinger) send() (number uint64, failed <-chan error) {
	p.mu.Lock()
	p.sent++
	number = p.sent
	p.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		p.asking.Lock()
		defer p.asking.Unlock()
		_, err := packets.NewControlPacket(packets.PINGREQ).WriteTo(p.conn)
		result <- err
	}()
	return number, result
}

// PingResp notes an answer. The broker answers in the order of requests.
func (p *pinger) PingResp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard++
	close(p.answer)
	p.answer = make(chan struct{})
}

// PacketSent does nothing: requests go at their interval.
func (p *pinger) PacketSent() {}

// PacketReceived does nothing.
func (p *pinger) PacketReceived() {}

// SetDebug does nothing.
func (p *pinger) SetDebug(log.Logger) {}
