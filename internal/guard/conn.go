package guard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// A frame is eight bytes of header, then the record as JSON. Files travel with the header.
const (
	headerSize = 8
	maxFrame   = 16 << 20 // bytes of one record
	maxQueue   = 1 << 16  // records waiting to be sent, apart from those with a slot
	maxFiles   = 3        // beside one record
)

var (
	errQueueFull = errors.New("too much waits to be sent")
	errClosed    = errors.New("socket closed")
)

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

// outgoing is a record in the queue.
type outgoing struct {
	m       message
	written chan error // of capacity one; nil when nobody waits
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

// send queues m and returns at once. The files of m belong to the connection from then on, also on an error.
func (c *conn) send(m message) error { return c.enqueue(&outgoing{m: m}) }

// sendWait queues m and returns a channel that tells, once, when it has been written.
func (c *conn) sendWait(m message) <-chan error {
	o := &outgoing{m: m, written: make(chan error, 1)}
	if err := c.enqueue(o); err != nil {
		o.written <- err
	}
	return o.written
}

func (c *conn) enqueue(o *outgoing) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		closeFiles(o.m.files)
		return c.closed
	}
	slot := o.m.slot()
	if old := c.slots[slot]; slot != "" && old != nil {
		old.m = o.m
		return nil
	}
	if len(c.queue) >= maxQueue {
		closeFiles(o.m.files)
		return errQueueFull
	}
	if slot != "" {
		c.slots[slot] = o
	}
	c.queue = append(c.queue, o)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// take removes the first record, and with it its slot: what comes later is a record of its own.
func (c *conn) take() (*outgoing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, false
	}
	o := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	delete(c.slots, o.m.slot())
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
		err := c.writeFrame(&o.m)
		if o.written != nil {
			o.written <- err
		}
		if err != nil {
			c.stopSending(err) // what the other end said before it went is still to be read
			return
		}
	}
}

func (c *conn) writeFrame(m *message) error {
	defer closeFiles(m.files)
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write %s: %w", m.Kind, err)
	}
	var header [headerSize]byte
	binary.LittleEndian.PutUint32(header[:4], uint32(len(body))) //nolint:gosec // G115: checked against maxFrame before a record is queued, and a record is far below 4 GiB
	header[4] = byte(len(m.files))                               //nolint:gosec // G115: at most maxFiles
	if _, _, err := c.sock.WriteMsgUnix(header[:], rights(m.files), nil); err != nil {
		return fmt.Errorf("write %s: %w", m.Kind, err)
	}
	if _, err := c.sock.Write(body); err != nil {
		return fmt.Errorf("write %s: %w", m.Kind, err)
	}
	return nil
}

func rights(files []*os.File) []byte {
	if len(files) == 0 {
		return nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return syscall.UnixRights(fds...)
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
		closeFiles(o.m.files)
		if o.written != nil {
			o.written <- err
		}
	}
	c.queue, c.slots = nil, nil
}

// read calls handle with every record that comes in, in order, until the connection ends, and returns why it did.
func (c *conn) read(handle func(message)) error {
	r := reader{sock: c.sock}
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

// reader puts records together again. The kernel keeps bytes and descriptors in order, but not side by side; the count in
// the header says which descriptors are whose.
type reader struct {
	sock  *net.UnixConn
	buf   bytes.Buffer
	files []*os.File
}

func (r *reader) next() (message, error) {
	var m message
	if err := r.fill(headerSize); err != nil {
		return m, err
	}
	header := r.buf.Next(headerSize)
	size, count := int(binary.LittleEndian.Uint32(header[:4])), int(header[4])
	if size > maxFrame || count > maxFiles {
		return m, fmt.Errorf("read: a record of %d bytes with %d files", size, count)
	}
	if err := r.fill(size); err != nil {
		return m, err
	}
	if err := json.Unmarshal(r.buf.Next(size), &m); err != nil {
		return m, fmt.Errorf("read: %w", err)
	}
	if len(r.files) < count {
		return m, fmt.Errorf("read %s: %d files of %d came", m.Kind, len(r.files), count)
	}
	m.files, r.files = r.files[:count:count], r.files[count:]
	return m, nil
}

// fill reads until the buffer holds n bytes.
func (r *reader) fill(n int) error {
	var chunk [32 << 10]byte
	var oob [256]byte
	for r.buf.Len() < n {
		got, gotOOB, flags, _, err := r.sock.ReadMsgUnix(chunk[:], oob[:])
		if gotOOB > 0 {
			if err := r.keep(oob[:gotOOB]); err != nil {
				return err
			}
		}
		if flags&syscall.MSG_CTRUNC != 0 {
			return errors.New("read: files were lost, the limit of open files is too low")
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if got == 0 {
			return errClosed
		}
		r.buf.Write(chunk[:got])
	}
	return nil
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

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
