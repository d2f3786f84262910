package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	keepAlive    = 15 * time.Second       // between comments on a quiet stream
	watchPace    = 100 * time.Millisecond // at most so often does a watcher hear of changes, which are then joined
	writeTimeout = 10 * time.Second       // a reader that takes longer for one message is dropped and may come again
)

// stream is one connection with server-sent events.
type stream struct {
	ctx   context.Context // ends with the request or the server
	w     http.ResponseWriter
	ctl   *http.ResponseController
	last  string // Last-Event-ID of the request
	n     int
	quiet *time.Ticker
}

// stream sends server-sent events as long as run goes on. Its errors end the connection: the reader comes again and begins
// with a snapshot.
func (s *server) stream(w http.ResponseWriter, r *http.Request, run func(*stream) error) *Error {
	select {
	case s.watchers <- struct{}{}:
		defer func() { <-s.watchers }()
	default:
		return unavailable(ReasonTooManyWatchers, "%d connections watch already; try again later", cap(s.watchers))
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that buffer would hold changes back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := untilClosing(r.Context())
	defer cancel()
	out := &stream{
		ctx: ctx, w: w, ctl: http.NewResponseController(w), last: r.Header.Get("Last-Event-ID"),
		quiet: time.NewTicker(keepAlive),
	}
	defer out.quiet.Stop()
	if err := run(out); err != nil && ctx.Err() == nil {
		s.Logger.V(1).Info("A watcher was dropped", "path", r.URL.Path, "error", err.Error())
	}
	return nil
}

// send writes one event; an empty id is replaced by a running number.
func (s *stream) send(kind, id string, v any) error {
	s.n++
	if id == "" {
		id = strconv.Itoa(s.n)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\nid: %s\ndata: %s\n\n", kind, id, data)
	return s.write(b.Bytes())
}

func (s *stream) write(b []byte) error {
	// Recorders in tests and some wrappers know no deadlines; the connection's own limits hold then.
	_ = s.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.w.Write(b)
	return err
}

func (s *stream) flush() error { return s.ctl.Flush() }

// wait returns nil when changed is closed or timeout (0: never) is over, and an error when the stream ends. Meanwhile it
// writes comments.
func (s *stream) wait(changed <-chan struct{}, timeout time.Duration) error {
	var over <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		over = t.C
	}
	for {
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-changed:
			return nil
		case <-over:
			return nil
		case <-s.quiet.C:
			if err := s.write([]byte(": still here\n\n")); err != nil {
				return err
			}
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

// follow calls step with each snapshot and the one before it (nil at first), at most once in watchPace.
func (s *server) follow(out *stream, step func(before, after *Snapshot) error) error {
	var before *Snapshot
	for {
		changed := s.Source.Changed()
		after := s.Source.Snapshot()
		if after != before {
			if err := step(before, after); err != nil {
				return err
			}
			if err := out.flush(); err != nil {
				return err
			}
			before = after
		}
		if err := out.wait(changed, 0); err != nil {
			return err
		}
		if err := out.wait(nil, watchPace); err != nil {
			return err
		}
	}
}

func (s *server) watchStatus(out *stream) error {
	return s.follow(out, func(before, after *Snapshot) error {
		switch {
		case before == nil:
			return out.send("snapshot", "", after.Status)
		case sameStatus(&before.Status, &after.Status):
			return nil
		default:
			return out.send("upsert", "", after.Status)
		}
	})
}

func watchList[T any](s *server, d *differ[T], q *query, out *stream) error {
	return s.follow(out, func(before, after *Snapshot) error {
		if before == nil {
			return out.send("snapshot", "", d.all(after, q))
		}
		for _, c := range d.between(before, after) {
			var err error
			switch {
			case c.after != nil && d.match(q, c.after):
				err = out.send("upsert", "", c.after)
			case c.before != nil && d.match(q, c.before):
				err = out.send("delete", "", c.before)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
