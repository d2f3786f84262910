package guard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"os"
	"syscall"
)

// A frame is eight bytes of header, then the envelope as JSON. Files travel with the header.
const (
	headerSize = 8
	maxFrame   = 16 << 20 // bytes of one envelope
	maxFiles   = 3        // with one envelope
)

// wireVersion is in every envelope. Both processes run one binary: a difference means that another program holds the
// socket.
const wireVersion = 2

var (
	// errMalformed says that what came over the socket is not what the other end may send.
	errMalformed = errors.New("malformed message")
	// errUnsendable says that a message cannot be put in a frame. It ends nothing but that message.
	errUnsendable = errors.New("message that cannot be sent")
	errClosed     = errors.New("socket closed")
)

// envelope is what travels: which type the body has, and in which version of all of them.
type envelope struct {
	Version int             `json:"version"`
	Kind    kind            `json:"kind"`
	Body    json.RawMessage `json:"body"`
}

// message is a body and the files sent with it, which belong to its receiver.
type message struct {
	body  body
	files []*os.File
}

// encode makes the frame of a message with so many files.
func encode(b body, files int) ([]byte, error) {
	text, err := json.Marshal(b)
	if err == nil {
		text, err = json.Marshal(envelope{wireVersion, b.kind(), text})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", errUnsendable, b.kind(), err)
	case len(text) > maxFrame || files > maxFiles:
		const format = "%w: %s: %d bytes with %d files, at most %d with %d"
		return nil, fmt.Errorf(format, errUnsendable, b.kind(), len(text), files, maxFrame, maxFiles)
	}
	frame := make([]byte, headerSize, headerSize+len(text))
	binary.LittleEndian.PutUint32(frame[:4], uint32(len(text))) //nolint:gosec // G115: at most maxFrame
	frame[4] = byte(files)                                      //nolint:gosec // G115: at most maxFiles
	return append(frame, text...), nil
}

func decode(text []byte, accepted map[kind]func() body) (body, error) {
	var e envelope
	if err := strict(text, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if e.Version != wireVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", errMalformed, e.Version, wireVersion)
	}
	empty, ok := accepted[e.Kind]
	if !ok {
		return nil, fmt.Errorf("%w: kind %q", errMalformed, e.Kind)
	}
	b := empty()
	if err := strict(e.Body, b); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errMalformed, e.Kind, err)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errMalformed, e.Kind, err)
	}
	return b, nil
}

func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// checkFiles compares the files that came with those that the body says were sent.
func (m message) checkFiles() error {
	least, most := 0, 0
	switch b := m.body.(type) {
	case *place:
		least, most = 1, 1
	case *start:
		most = bits.OnesCount(uint(b.Files))
		least = most
		if both := passedStdout | passedStderr; b.Files&both == both {
			least-- // one file may serve for both
		}
	}
	if n := len(m.files); n < least || n > most {
		return fmt.Errorf("%w: %s with %d files, want %d", errMalformed, m.body.kind(), n, most)
	}
	return nil
}

// writeFrame writes the header, with which the files travel, and then the rest.
func writeFrame(sock *net.UnixConn, frame []byte, files []*os.File) error {
	if _, _, err := sock.WriteMsgUnix(frame[:headerSize], rights(files), nil); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if _, err := sock.Write(frame[headerSize:]); err != nil {
		return fmt.Errorf("write: %w", err)
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

// reader puts messages together again. The kernel keeps bytes and descriptors in order, but not side by side; the
// count in the header says which descriptors belong to which message.
type reader struct {
	sock     *net.UnixConn
	accepted map[kind]func() body
	buf      bytes.Buffer
	files    []*os.File
}

func (r *reader) next() (message, error) {
	var m message
	if err := r.fill(headerSize); err != nil {
		return m, err
	}
	header := r.buf.Next(headerSize)
	size, count := int(binary.LittleEndian.Uint32(header[:4])), int(header[4])
	if size > maxFrame || count > maxFiles {
		return m, fmt.Errorf("%w: %d bytes with %d files", errMalformed, size, count)
	}
	if err := r.fill(size); err != nil {
		return m, err
	}
	var err error
	if m.body, err = decode(r.buf.Next(size), r.accepted); err != nil {
		return m, err
	}
	if len(r.files) < count {
		return m, fmt.Errorf("%w: %s: %d files of %d came", errMalformed, m.body.kind(), len(r.files), count)
	}
	m.files, r.files = r.files[:count:count], r.files[count:]
	if err := m.checkFiles(); err != nil {
		closeFiles(m.files)
		return message{}, err
	}
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
