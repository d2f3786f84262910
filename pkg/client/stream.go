package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

// pace is how fast broken watches are made again.
type pace struct {
	first, most time.Duration // of the waits between two connections
	silence     time.Duration // after which a connection counts as broken; a replica sends something every 15 s
}

func defaultPace() pace {
	return pace{first: time.Second, most: 10 * time.Second, silence: 45 * time.Second}
}

// rest waits for about d, less or more by a fifth: those who lost one replica should not all come back at once.
func (p pace) rest(ctx context.Context, d time.Duration) error {
	d += time.Duration((rand.Float64() - 0.5) * 0.4 * float64(d)) //nolint:gosec // G404: no secret
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// message takes one message of a stream.
type message func(kind, id string, data []byte) error

// stream is what one watch reads. It belongs to one goroutine.
type stream struct {
	client *Client
	path   string
	values url.Values
	last   string // the id of the message seen last
	handle message
}

// The ways in which a connection ends that is not at fault.
var (
	errEnded  = errors.New("the replica ended the stream")
	errSilent = errors.New("nothing has come from the replica for too long")
)

// run reads one connection until it ends, and returns why. begun is called when it stands.
func (s *stream) run(ctx context.Context, begun func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	answered := func() bool { return true }
	if s.client.timeout > 0 {
		answered = time.AfterFunc(s.client.timeout, func() { stop(context.DeadlineExceeded) }).Stop
	}
	resp, err := s.client.read(ctx, s.path, s.values, "text/event-stream", s.last)
	answered()
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // a stream is never read to its end
	begun()
	silence := s.client.pace.silence
	silent := time.AfterFunc(silence, func() { stop(errSilent) })
	defer silent.Stop()
	err = readStream(heard{resp.Body, func() { silent.Reset(silence) }}, func(kind, id string, data []byte) error {
		silent.Stop() // the caller may take its time
		if err := s.handle(kind, id, data); err != nil {
			return err
		}
		if id != "" {
			s.last = id
		}
		silent.Reset(silence)
		return nil
	})
	if _, ours := errors.AsType[handlerError](err); ours {
		return err
	}
	return cause(ctx, err)
}

// heard reports each part of a stream that arrives.
type heard struct {
	io.Reader

	report func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.report()
	}
	return n, err
}

// maxMessage bounds one message, in bytes: a snapshot of 100,000 tasks is some 50 MB.
const maxMessage = 256 << 20

// readStream reads server-sent events as replicas write them. They are JSON, with line breaks in data only between its
// parts, so that lines are joined without them.
func readStream(r io.Reader, handle message) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	var kind, id string
	var data []byte
	for lines.Scan() {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			if data = append(data, value...); len(data) > maxMessage {
				return fmt.Errorf("read the stream: a message of more than %d MiB", maxMessage>>20)
			}
		}
		if line != "" {
			continue
		}
		if data != nil {
			if err := handle(kind, id, data); err != nil {
				return err
			}
		}
		kind, data = "", nil
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	return errEnded
}
