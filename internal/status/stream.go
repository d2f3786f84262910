package status

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// watchers is what all watchers share.
type watchers struct {
	log    logr.Logger
	shares shares
	budget *budget
}

// stream sends server-sent events as long as run goes on. Its errors end the connection: the reader comes again and
// begins with a snapshot.
func (w *watchers) stream(rw http.ResponseWriter, r *http.Request, run func(*stream) error) *web.Error {
	leave, bad := enter(w.shares.of(r).watching, r, api.ReasonTooManyWatchers, "connections watch")
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
	out, end := newStream(rw, r, zipped)
	defer end()
	if err := run(out); err != nil && r.Context().Err() == nil {
		w.log.V(1).Info("A watcher was dropped", "path", r.URL.Path, "error", out.why(err).Error())
	}
	return nil
}

// begin sends an initial snapshot.
func (w *watchers) begin(out *stream, o *initialSnapshot) error {
	w.budget.keep(out, o)
	defer w.budget.done(out, o)
	if err := out.packed(o.text); err != nil {
		return err
	}
	return out.flush()
}

const (
	keepAlive    = 15 * time.Second       // between comments on a quiet stream
	watchPace    = 100 * time.Millisecond // at most so often does a watcher get changes, which are then joined
	writeTimeout = 10 * time.Second       // a reader that takes longer for one chunk is dropped and may come again
)

// stream is one connection with server-sent events.
type stream struct {
	ctx    context.Context // ends with the request or the server, or when the watcher is dropped
	drop   context.CancelCauseFunc
	chunks *chunkWriter
	wire   wire
	dirty  bool   // the header, or something after it, was written since the last flush
	last   string // Last-Event-ID of the request
	quiet  *time.Ticker
}

// newStream makes a stream whose header is written, and reaches the reader with the first flush. Call end at the end.
func newStream(w http.ResponseWriter, r *http.Request, zipped bool) (out *stream, end func()) {
	ctx, cancel := web.UntilClosing(r.Context())
	ctx, drop := context.WithCancelCause(ctx)
	chunks := newChunkWriter(ctx, w)
	out = &stream{
		ctx: ctx, drop: drop, chunks: chunks, wire: plainWire{chunks}, last: lastEvent(r),
		dirty: true, quiet: time.NewTicker(keepAlive),
	}
	if zipped {
		out.wire = newGzipWire(chunks)
	}
	web.LimitKernel(ctx)
	out.dropOnceRefused()
	// A write that waits for its reader ends at once when the stream does.
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = chunks.ctl.SetWriteDeadline(time.Now())
	})
	return out, func() {
		if !stop() {
			<-cut // the writer must not be used once the handler has returned
		}
		_ = out.wire.end() // the reader may be gone
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

// text writes events as they are.
func (s *stream) text(p []byte) error {
	s.dirty = true
	return s.wire.text(p)
}

// packed writes events that were compressed for all.
func (s *stream) packed(p *packed) error {
	s.dirty = true
	return s.wire.packed(p)
}

// flush has the reader see what was written.
func (s *stream) flush() error {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	if err := s.wire.flush(); err != nil {
		return err
	}
	return s.chunks.flush()
}

var stillHere = []byte(": still here\n\n")

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
			if err := s.text(stillHere); err != nil {
				return err
			}
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

// chunkWriter gives each chunk a deadline of its own. So what counts is whether the reader goes on, not how much there
// is to read. Use newChunkWriter.
type chunkWriter struct {
	ctx   context.Context // nothing is written after its end
	w     io.Writer
	ctl   *http.ResponseController
	until time.Time // deadline of all chunks; zero: none
	left  int       // bytes that may still be written until the deadline
}

func newChunkWriter(ctx context.Context, w http.ResponseWriter) *chunkWriter {
	return &chunkWriter{ctx: ctx, w: w, ctl: http.NewResponseController(w)}
}

// renew begins a chunk.
func (c *chunkWriter) renew() error {
	at := time.Now().Add(writeTimeout)
	if !c.until.IsZero() && at.After(c.until) {
		at = c.until
	}
	// Recorders in tests and some wrappers know no deadlines; the connection's own limits hold then.
	_ = c.ctl.SetWriteDeadline(at)
	c.left = chunk
	if c.ctx.Err() != nil { // asked after setting the deadline: ending the stream sets it to now
		_ = c.ctl.SetWriteDeadline(time.Now())
		return context.Cause(c.ctx)
	}
	return nil
}

func (c *chunkWriter) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		if c.left == 0 {
			if err := c.renew(); err != nil {
				return n, err
			}
		}
		var m int
		m, err = c.w.Write(p[n:min(len(p), n+c.left)])
		n += m
		c.left -= m
	}
	return n, err
}

// flush sends what is buffered, with a deadline of its own.
func (c *chunkWriter) flush() error {
	if err := c.renew(); err != nil {
		return err
	}
	c.left = 0
	return c.ctl.Flush()
}
