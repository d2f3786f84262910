package status

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	keepAlive    = 15 * time.Second       // between comments on a quiet stream
	watchPace    = 100 * time.Millisecond // at most so often does a watcher get changes, which are then joined
	writeTimeout = 10 * time.Second       // a reader that takes longer for one chunk is dropped and may come again
)

// stream is one connection with server-sent events.
type stream struct {
	ctx   context.Context // ends with the request or the server, or when the watcher is dropped
	drop  context.CancelCauseFunc
	ctl   *http.ResponseController
	body  *body
	last  string // Last-Event-ID of the request
	n     int
	quiet *time.Ticker
}

// newStream sends the header. Call close at the end.
func newStream(w http.ResponseWriter, r *http.Request) (out *stream, end func()) {
	ctx, cancel := untilClosing(r.Context())
	ctx, drop := context.WithCancelCause(ctx)
	ctl := http.NewResponseController(w)
	out = &stream{
		ctx: ctx, drop: drop, ctl: ctl, last: r.Header.Get("Last-Event-ID"), quiet: time.NewTicker(keepAlive),
		body: newBody(limitedWriter{ctx, w, ctl}, "data: "),
	}
	// A write that waits for its reader ends at once when the stream does.
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = ctl.SetWriteDeadline(time.Now())
	})
	return out, func() {
		if !stop() {
			<-cut // the writer must not be used once the handler has returned
		}
		out.quiet.Stop()
		drop(nil)
		cancel()
	}
}

// limitedWriter gives each chunk a deadline of its own. So what counts is whether the reader goes on, not how much
// there is to read.
type limitedWriter struct {
	ctx context.Context
	w   io.Writer
	ctl *http.ResponseController
}

func (l limitedWriter) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		// Recorders in tests and some wrappers know no deadlines; the connection's own limits hold then.
		_ = l.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
		if l.ctx.Err() != nil { // asked after setting the deadline: ending the stream sets it to now
			return n, context.Cause(l.ctx)
		}
		var m int
		m, err = l.w.Write(p[n:min(len(p), n+chunk)])
		n += m
	}
	return n, err
}

// begin writes the head of an event; an empty id is replaced by a running number.
func (s *stream) begin(kind, id string) {
	s.n++
	if id == "" {
		id = strconv.Itoa(s.n)
	}
	s.body.text("event: ", kind, "\nid: ", id, "\n")
}

// send writes one event with a small object.
func (s *stream) send(kind, id string, v any) error {
	s.begin(kind, id)
	s.body.text(s.body.prefix)
	s.body.value(v)
	s.body.text("\n")
	return s.body.err
}

// sendLines writes one event with an object of any length.
func (s *stream) sendLines(kind, id string, l lines) error {
	s.begin(kind, id)
	l.writeTo(s.body)
	s.body.text("\n")
	return s.body.err
}

func (s *stream) flush() error {
	if err := s.body.flush(); err != nil {
		return err
	}
	return s.ctl.Flush()
}

// wait returns nil when changed is closed or timeout (0: never) is over, and an error when the stream ends. Meanwhile
// it writes comments.
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
			s.body.text(": still here\n\n")
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}
