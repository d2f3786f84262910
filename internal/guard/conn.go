package guard

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
)

// maxQueue bounds the messages that wait to be sent, apart from those with a slot.
const maxQueue = 1 << 16

var errQueueFull = errors.New("too much waits to be sent")

// conn is one end of the socket. Sending never blocks: a goroutine writes what is queued.
type conn struct {
	sock *net.UnixConn

	mu     sync.Mutex
	queue  []*outgoing
	slots  map[string]*outgoing
	closed error
	wake   chan struct{}

	down    chan struct{} // closed with the connection
	writing chan struct{} // closed when the writer has returned
}

// outgoing is a message in the queue.
type outgoing struct {
	slot    string // of which the newest message alone counts; empty: it has none
	frame   []byte
	files   []*os.File
	written chan error // of capacity one; nil when nothing waits for it
}

func newConn(sock *net.UnixConn) *conn {
	c := &conn{
		sock: sock, slots: map[string]*outgoing{}, wake: make(chan struct{}, 1),
		down: make(chan struct{}), writing: make(chan struct{}),
	}
	go c.write()
	return c
}

// connFromFile takes over a socket's descriptor and closes f.
func connFromFile(f *os.File) (*conn, error) {
	nc, err := net.FileConn(f)
	_ = f.Close() // FileConn works on a duplicate
	if err != nil {
		return nil, fmt.Errorf("open the guard's socket: %w", err)
	}
	sock, ok := nc.(*net.UnixConn)
	if !ok {
		_ = nc.Close()
		return nil, fmt.Errorf("open the guard's socket: it is a %T", nc)
	}
	return newConn(sock), nil
}

// send queues b and returns at once. What cannot be sent is an error of its own, and ends nothing. The files belong to
// the connection from then on, also on an error.
func (c *conn) send(b body, files ...*os.File) error { return c.enqueue(b, files, nil) }

// sendWait queues b and returns a channel that delivers, once, whether it has been written.
func (c *conn) sendWait(b body, files ...*os.File) <-chan error {
	written := make(chan error, 1)
	if err := c.enqueue(b, files, written); err != nil {
		written <- err
	}
	return written
}

func (c *conn) enqueue(b body, files []*os.File, written chan error) error {
	frame, err := encode(b, len(files))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
	case c.closed != nil:
		err = c.closed
	case len(c.queue) >= maxQueue:
		err = errQueueFull
	}
	if err != nil {
		closeFiles(files)
		return err
	}
	o := &outgoing{slotOf(b), frame, files, written}
	if old := c.slots[o.slot]; old != nil {
		old.frame = frame
		return nil
	}
	if o.slot != "" {
		c.slots[o.slot] = o
	}
	c.queue = append(c.queue, o)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// take removes the first message, and with it its slot: what comes later is a message of its own.
func (c *conn) take() (*outgoing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, false
	}
	o := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	delete(c.slots, o.slot)
	return o, true
}

func (c *conn) write() {
	defer close(c.writing)
	for {
		o, ok := c.take()
		if !ok {
			select {
			case <-c.wake:
				continue
			case <-c.down:
				return
			}
		}
		err := writeFrame(c.sock, o.frame, o.files)
		closeFiles(o.files)
		if o.written != nil {
			o.written <- err
		}
		if err != nil {
			// The other end reads to here, and ends. What it said before that is still to be read.
			c.stopSending(err)
			_ = c.sock.CloseWrite() // it fails when the other end is gone, or this one
			return
		}
	}
}

// shut ends the connection for err. It may be called again.
func (c *conn) shut(err error) {
	c.stopSending(err)
	_ = c.sock.Close() // a second close fails, and that is all
}

// stopSending drops what is queued and refuses more.
func (c *conn) stopSending(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return
	}
	c.closed = err
	close(c.down)
	for _, o := range c.queue {
		closeFiles(o.files)
		if o.written != nil {
			o.written <- err
		}
	}
	c.queue, c.slots = nil, nil
}

// read calls handle with every message that comes in, in order, until the connection ends, and returns why it did.
// What is not among the accepted bodies ends it.
func (c *conn) read(accepted map[kind]func() body, handle func(message)) error {
	r := reader{sock: c.sock, accepted: accepted}
	defer func() { closeFiles(r.files) }()
	for {
		m, err := r.next()
		if err != nil {
			c.shut(err)
			return err
		}
		handle(m)
	}
}
