package status

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// watchers is what all watchers share.
type watchers struct {
	log    logr.Logger
	shares shares
}

// stream sends server-sent events as long as run goes on. Its errors end the connection: the reader comes again and
// begins with a snapshot.
func (w *watchers) stream(rw http.ResponseWriter, r *http.Request, run func(*stream) error) *web.Error {
	share := w.shares.of(r)
	leave, bad := enter(share.watching, r, api.ReasonTooManyWatchers, "connections watch")
	if bad != nil {
		return bad
	}
	defer leave()
	stopAnswering(r)
	h := rw.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that buffer would hold changes back
	zipped := takesGzip(r.Header.Get("Accept-Encoding"))
	if zipped {
		h.Set("Content-Encoding", "gzip")
	}
	rw.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out, end := newStream(rw, r, share, zipped)
	defer end()
	if err := run(out); err != nil && r.Context().Err() == nil {
		w.log.V(1).Info("A watcher was dropped", "path", r.URL.Path, "error", out.why(err).Error())
	}
	return nil
}

const (
	keepAlive    = 15 * time.Second // between comments on a quiet stream
	writeTimeout = 10 * time.Second // a reader that takes longer for one chunk is dropped and may come again
	flushTimeout = 60 * time.Second // and so is one that takes longer for all that it is sent at once
	// slowAfter is how long a reader may take for what it is sent at once before it counts as slow. A slow reader keeps a
	// list that others may not have any more, so there are few of them.
	slowAfter = 2 * time.Second
	// yieldAfter is how long a reader of a list may take for one chunk before others have its turn.
	yieldAfter = 5 * time.Millisecond
)

// errSlow is why a watcher is dropped that is slow while as many others are as may be. It may come again.
var errSlow = errors.New("the watcher reads slowly, and too many others do so already")

// stream is one connection with server-sent events. What is written collects until flush; the first error stays, and
// flush returns it.
type stream struct {
	ctx   context.Context // ends with the request or the server, or when the watcher is dropped
	drop  context.CancelCauseFunc
	share *share
	last  string // Last-Event-ID of the request
	quiet *time.Ticker

	body  *body
	zip   *gzip.Writer  // below the body; nil: the reader takes no gzip
	below *bufio.Writer // below zip
	dirty bool          // the header, or something after it, was written since the last flush

	w    http.ResponseWriter
	ctl  *http.ResponseController
	took time.Duration // by the reader, since the last flush
	slow bool          // it has one of the places of slow readers
	turn bool          // it has a turn to send a list
}

// newStream makes a stream whose header is written, and reaches the reader with the first flush. Call end at the end.
func newStream(w http.ResponseWriter, r *http.Request, share *share, zipped bool) (out *stream, end func()) {
	ctx, cancel := web.UntilClosing(r.Context())
	ctx, drop := context.WithCancelCause(ctx)
	out = &stream{
		ctx: ctx, drop: drop, share: share, last: lastEvent(r), quiet: time.NewTicker(keepAlive),
		dirty: true, w: w, ctl: http.NewResponseController(w),
	}
	var to io.Writer = out
	if zipped {
		// It keeps nothing from one chunk to the next, and the reader can decode each at once. A compressor that does
		// keep something would take most of a megabyte for each stream.
		out.below = bufio.NewWriterSize(out, chunk)
		out.zip, _ = gzip.NewWriterLevel(out.below, gzip.StatelessCompression) // this level is allowed
		to = out.zip
	}
	out.body = newBody(to, "data: ")
	out.dropOnceRefused()
	// A write that waits for its reader ends at once when the stream does.
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = out.ctl.SetWriteDeadline(time.Now())
	})
	return out, func() {
		if !stop() {
			<-cut // the writer must not be used once the handler has returned
		}
		if out.body.flush() == nil && zipped && out.zip.Close() == nil {
			_ = out.below.Flush() // the reader may be gone
		}
		out.rest()
		out.quiet.Stop()
		drop(nil)
		cancel()
	}
}

// lastEvent is the event that the reader saw last; empty: none, or what cannot be one.
func lastEvent(r *http.Request) string {
	id := r.Header.Get("Last-Event-ID")
	if len(id) > maxLength || isOdd(id) {
		return ""
	}
	return id
}

// event writes an event about one item.
func (s *stream) event(kind, id string, item any) {
	s.dirty = true
	s.body.text("event: ", kind, "\nid: ", id, "\ndata: ")
	s.body.value(item)
	s.body.text("\n")
}

// list sends a list, which made returns once it is this stream's turn. Few lists are sent at once, however many watchers
// come together: those that wait keep none, and the processors have time for the rest, heartbeats among it.
func (s *stream) list(made func() (id string, l lines)) error {
	if err := s.wait(s.share.turns, 0); err != nil {
		return err
	}
	s.turn = true
	defer func() {
		s.turn = false
		s.share.turns.give()
	}()
	id, write := made()
	s.dirty = true
	s.body.text("event: snapshot\nid: ", id, "\n")
	write(s.body)
	s.body.text("\n")
	return s.flush()
}

// flush has the reader see what was written.
func (s *stream) flush() error {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	defer s.rest()
	if err := s.body.flush(); err != nil {
		return err
	}
	if s.below != nil {
		if err := s.below.Flush(); err != nil {
			return err
		}
	}
	return s.give(s.ctl.Flush)
}

// rest gives back the place of a slow reader once it has all that was written.
func (s *stream) rest() {
	s.took = 0
	if s.slow {
		s.slow = false
		<-s.share.slow
	}
}

// Write writes to the reader.
func (s *stream) Write(p []byte) (n int, err error) {
	err = s.give(func() error {
		n, err = s.w.Write(p)
		return err
	})
	return n, err
}

// give has the reader take something. Meanwhile, if that takes long, others have the stream's turn; if it takes longer,
// the reader counts as slow.
func (s *stream) give(write func() error) error {
	began := time.Now()
	// Recorders in tests and some wrappers know no deadlines; the connection's own limits hold then.
	_ = s.ctl.SetWriteDeadline(began.Add(min(writeTimeout, flushTimeout-s.took)))
	if s.ctx.Err() != nil { // asked after setting the deadline: ending the stream sets it to now
		_ = s.ctl.SetWriteDeadline(began)
		return context.Cause(s.ctx)
	}
	if s.turn {
		yielded := after(yieldAfter, s.share.turns.give)
		defer func() {
			if yielded() {
				<-s.share.turns
			}
		}()
	}
	if !s.slow {
		defer after(slowAfter-s.took, s.slowDown)()
	}
	defer func() { s.took += time.Since(began) }()
	return write()
}

// slowDown takes a place of slow readers, or drops the watcher.
func (s *stream) slowDown() {
	select {
	case s.share.slow <- struct{}{}:
		s.slow = true
	default:
		s.drop(errSlow)
	}
}

// after calls late unless stop is called within d. stop waits for it, and says whether it was called.
func after(d time.Duration, late func()) (stop func() bool) {
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		defer close(done)
		late()
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		<-done
		return true
	}
}

// wait returns nil when changed is closed, or something comes through it, or timeout (0: never) is over, and an error
// when the stream ends. Meanwhile it writes comments.
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
			s.dirty = true
			s.body.text(": still here\n\n")
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

// why is the reason for which the stream ended, where writing failed for it.
func (s *stream) why(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	return err
}

// allowedPace is how often streams ask whether who reads them still may.
const allowedPace = time.Second

// errNotAllowed is why streams end whose reader may not read any more.
var errNotAllowed = errors.New("the token is not known any more")

// dropOnceRefused ends the stream once its reader is not allowed to read it any more.
func (s *stream) dropOnceRefused() {
	allowed := accessOf(s.ctx).Allowed
	if allowed == nil {
		return
	}
	var ask func()
	ask = func() {
		switch {
		case s.ctx.Err() != nil:
		case !allowed():
			s.drop(errNotAllowed)
		default:
			time.AfterFunc(allowedPace, ask)
		}
	}
	time.AfterFunc(allowedPace, ask)
}
