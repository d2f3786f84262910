package program

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/tracing"
	"github.com/shardctl/shardctl/pkg/elect"
)

// logs are the two ways to the log. The program's own lines are dropped and counted when the log is not read, so that
// nothing on the lease's path waits for it. Of the tasks' lines none is dropped.
type logs struct {
	own   logr.Logger
	tasks *zap.Logger
	lossy *lossyWriter
}

func newLogs(s settings.Log, to *os.File) *logs {
	level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		level.SetLevel(zapcore.InfoLevel) // the configuration was checked: only an empty one comes here
	}
	steady := zapcore.Lock(to)
	lossy := newLossyWriter(steady)
	own := zapr.NewLogger(zap.New(zapcore.NewCore(encoder(s.Format), lossy, level)))
	lossy.report.Store(&own)
	return &logs{
		own:   own,
		tasks: zap.New(zapcore.NewCore(encoder(s.Format), steady, zapcore.InfoLevel)),
		lossy: lossy,
	}
}

func encoder(format string) zapcore.Encoder {
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey, cfg.EncodeTime = "ts", zapcore.ISO8601TimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	if format == "console" {
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		return zapcore.NewConsoleEncoder(cfg)
	}
	return zapcore.NewJSONEncoder(cfg)
}

// Line implements [taskrun.Sink].
func (l *logs) Line(key elect.Key, stream taskrun.Stream, line string) {
	l.tasks.Info(line, zap.String("key", string(key)), zap.String("stream", string(stream)))
}

// close writes what is queued.
func (l *logs) close() { l.lossy.close() }

// lossyWriter passes lines on in a goroutine of its own and drops what does not fit its queue.
type lossyWriter struct {
	lines   chan []byte // never closed: others may still write when it ends
	dropped atomic.Int64
	report  atomic.Pointer[logr.Logger] // where it says how many lines were dropped; nil: nowhere
	end     func()
	ending  chan struct{}
	done    chan struct{}
}

const (
	ownLines = 4096 // queued at most
	// lastLines is how long the end waits for the log to be read: who exits at the hard deadline does not wait for a
	// reader.
	lastLines = time.Second
)

func newLossyWriter(to io.Writer) *lossyWriter {
	w := &lossyWriter{lines: make(chan []byte, ownLines), ending: make(chan struct{}), done: make(chan struct{})}
	w.end = sync.OnceFunc(func() { close(w.ending) })
	go w.pass(to)
	return w
}

// pass writes lines until the end, and then those that are queued.
func (w *lossyWriter) pass(to io.Writer) {
	defer close(w.done)
	for {
		select {
		case line := <-w.lines:
			_, _ = to.Write(line) // there is nowhere to report that the log cannot be written
			w.admit()
			continue
		case <-w.ending:
		}
		for {
			select {
			case line := <-w.lines:
				_, _ = to.Write(line)
			default:
				return
			}
		}
	}
}

// admit logs how many lines were dropped, once they can be taken again.
func (w *lossyWriter) admit() {
	log := w.report.Load()
	if log == nil || w.dropped.Load() == 0 || len(w.lines) > ownLines/2 {
		return
	}
	log.Info("Lines of this log were dropped: it was not read in time", "lines", w.dropped.Swap(0))
}

// Write implements zapcore.WriteSyncer and never blocks.
func (w *lossyWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- append([]byte(nil), line...):
	default:
		w.dropped.Add(1)
	}
	return len(line), nil
}

func (w *lossyWriter) Sync() error { return nil }

// close writes what is queued, as far as somebody reads it. It may be called at any time, also twice; what is written
// afterwards is lost.
func (w *lossyWriter) close() {
	w.end()
	select {
	case <-w.done:
	case <-time.After(lastLines):
	}
}

const (
	flushFor   = 2 * time.Second        // the last spans are exported, at most
	flushAtAll = 500 * time.Millisecond // when shutdown.timeout is over: the guard waits a little longer
)

// traces are the traces of the worker, where the environment asks for some.
type traces struct {
	on  *tracing.Tracing // nil: it does not
	log logr.Logger

	mu sync.Mutex
	by time.Time // when a shutdown is to be over; zero: there is none
}

// begin sets tracing up. A replica runs also where the environment asks for what there is not: such variables are often
// set for many programs at once.
func (t *traces) begin(ctx context.Context, s *settings.Settings, log logr.Logger) {
	t.log = log
	var err error
	t.on, err = tracing.Start(ctx, tracing.Config{
		Cluster: s.Cluster, Instance: s.Instance, Version: options.Version, Log: log,
	})
	if err != nil {
		log.Error(err, "Nothing is traced")
	}
}

// tracer makes the spans; nil: none are made.
func (t *traces) tracer() replica.Tracer {
	if t.on == nil {
		return nil
	}
	return t.on
}

// endBy says when a shutdown is to be over.
func (t *traces) endBy(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by = at
}

// end exports what is left, in what is left of the shutdown. A collector that does not answer holds nothing up.
func (t *traces) end(ctx context.Context) {
	if t.on == nil {
		return
	}
	limit := flushFor
	t.mu.Lock()
	if !t.by.IsZero() {
		limit = min(limit, max(time.Until(t.by), flushAtAll))
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := t.on.Close(ctx); err != nil {
		t.log.Error(err, "The last spans are not exported")
	}
}
