package wire

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/shardctl/shardctl/internal/process"
)

// maxQueue bounds the messages that wait to be sent, apart from those with a slot.
const maxQueue = 1 << 16

var (
	// ErrQueueFull says that the other end reads too little: too much waits to be sent.
	ErrQueueFull = errors.New("too much waits to be sent")
	// ErrClosed says that the connection has ended.
	ErrClosed = errors.New("socket closed")
	// ErrUnreadable says that what came over the socket is no message, or lacks its files.
	ErrUnreadable = errors.New("unreadable message")
)

// Message is a body, which is one of this package's types, and the files sent with it, which belong to its receiver.
type Message struct {
	Body  any
	Files []*os.File
}

// envelope is what travels. The kernel keeps bytes and descriptors in order, but not side by side; the count says
// which descriptors belong to which message.
type envelope struct {
	Body  any
	Files int
}

// Conn is one end of the socket. Sending never blocks: a goroutine writes what is queued. Its methods may be called
// concurrently, but for Read.
type Conn struct {
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
	Message

	slot    string     // of which the newest message alone counts; empty: it has none
	written chan error // of capacity one; nil when nothing waits for it
}

// NewConn takes over a socket's descriptor and closes f.
func NewConn(f *os.File) (*Conn, error) {
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
	c := &Conn{
		sock: sock, slots: map[string]*outgoing{}, wake: make(chan struct{}, 1),
		down: make(chan struct{}), writing: make(chan struct{}),
	}
	go c.write()
	return c, nil
}

// Send queues a message and returns at once. The files belong to the connection from then on, also on an error.
func (c *Conn) Send(body any, files ...*os.File) error { return c.enqueue(body, files, nil) }

// SendWait queues a message and returns a channel that delivers, once, whether it has been written.
func (c *Conn) SendWait(body any, files ...*os.File) <-chan error {
	written := make(chan error, 1)
	if err := c.enqueue(body, files, written); err != nil {
		written <- err
	}
	return written
}

func (c *Conn) enqueue(body any, files []*os.File, written chan error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.closed
	if err == nil && len(c.queue) >= maxQueue {
		err = ErrQueueFull
	}
	if err != nil {
		process.CloseFiles(files...)
		return err
	}
	o := &outgoing{Message{body, files}, slotOf(body), written}
	if old := c.slots[o.slot]; old != nil {
		old.Body = body
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
func (c *Conn) take() (*outgoing, bool) {
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

func (c *Conn) write() {
	defer close(c.writing)
	var text bytes.Buffer
	encoder := gob.NewEncoder(&text)
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
		err := encoder.Encode(envelope{o.Body, len(o.Files)})
		if err == nil {
			err = c.writeText(text.Bytes(), o.Files)
		}
		text.Reset()
		process.CloseFiles(o.Files...)
		if o.written != nil {
			o.written <- err
		}
		if err != nil {
			// The other end reads to here, and ends. What it sent before that is still to be read.
			c.stopSending(err)
			_ = c.sock.CloseWrite() // it fails when the other end is gone, or this one
			return
		}
	}
}

// writeText writes the first byte, with which the files travel, and then the rest.
func (c *Conn) writeText(text []byte, files []*os.File) error {
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		if _, _, err := c.sock.WriteMsgUnix(text[:1], syscall.UnixRights(fds...), nil); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		text = text[1:]
	}
	if _, err := c.sock.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Down is closed when nothing can be sent any more.
func (c *Conn) Down() <-chan struct{} { return c.down }

// Shut ends the connection for err. It may be called again.
func (c *Conn) Shut(err error) {
	c.stopSending(err)
	_ = c.sock.Close() // a second close fails, and that is all
}

// AwaitWriter waits, after Shut, until nothing is written any more.
func (c *Conn) AwaitWriter() { <-c.writing }

// stopSending drops what is queued and refuses more.
func (c *Conn) stopSending(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return
	}
	c.closed = err
	close(c.down)
	for _, o := range c.queue {
		process.CloseFiles(o.Files...)
		if o.written != nil {
			o.written <- err
		}
	}
	c.queue, c.slots = nil, nil
}

// Read calls handle with every message that comes in, in order, until the connection ends, and returns why it did. Call
// it once.
func (c *Conn) Read(handle func(Message)) error {
	in := &reader{sock: c.sock}
	defer func() { process.CloseFiles(in.files...) }()
	decoder := gob.NewDecoder(bufio.NewReaderSize(in, 32<<10))
	for {
		m, err := in.next(decoder)
		if err != nil {
			c.Shut(err)
			return err
		}
		handle(m)
	}
}

// reader reads the socket, and keeps the files that come with the bytes.
type reader struct {
	sock  *net.UnixConn
	files []*os.File
	err   error // why reading ended
}

func (r *reader) next(decoder *gob.Decoder) (Message, error) {
	var e envelope
	err := decoder.Decode(&e)
	switch {
	case err == nil && e.Files <= len(r.files):
		m := Message{e.Body, r.files[:e.Files:e.Files]}
		r.files = r.files[e.Files:]
		return m, nil
	case err == nil:
		return Message{}, fmt.Errorf("%w: %T: %d files of %d came", ErrUnreadable, e.Body, len(r.files), e.Files)
	case r.err != nil:
		return Message{}, r.err
	default:
		return Message{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
}

// Read implements [io.Reader].
func (r *reader) Read(into []byte) (int, error) {
	var oob [256]byte
	n, gotOOB, flags, _, err := r.sock.ReadMsgUnix(into, oob[:])
	switch kept := r.keep(oob[:gotOOB]); {
	case kept != nil:
		r.err = kept
	case flags&syscall.MSG_CTRUNC != 0:
		r.err = fmt.Errorf("%w: files were lost, the limit of open files is too low", ErrUnreadable)
	case err != nil:
		r.err = fmt.Errorf("read: %w", err)
	case n == 0:
		r.err = io.EOF
	}
	return max(n, 0), r.err
}

func (r *reader) keep(oob []byte) error {
	controls, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("read files: %w", err)
	}
	for i := range controls {
		fds, err := syscall.ParseUnixRights(&controls[i])
		if err != nil {
			return fmt.Errorf("read files: %w", err)
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			r.files = append(r.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return nil
}
