// Package output passes what commands write on to a sink, and keeps the newest lines of each task.
package output

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// How long output is waited for once nothing of its command is left. First the key waits for so long, and for no log.
// Then the wait goes on in the background, for a sink that takes nothing and for ends of the pipes that another process
// still has.
const (
	outputWait   = 250 * time.Millisecond
	sinkPatience = 5 * time.Second
)

// Pipes is the reading side of one command's pipes. The pipes are the queue: a reader that waits for the sink fills
// them, and that holds up the command.
type Pipes struct {
	token    int64 // of the start
	reads    []*os.File
	readers  atomic.Int32
	done     chan struct{} // closed when all readers have ended
	left     chan struct{} // closed when the sink is waited for no longer
	patience time.Duration
}

// Readers read the output of commands. Their methods may be called concurrently.
type Readers struct {
	Kept     *Kept
	Patience time.Duration // how long a sink that takes nothing is waited for once the command is gone
	sink     taskrun.Sink
	logger   logr.Logger
	all      sync.WaitGroup
}

// NewReaders makes readers that keep lines and pass them on to the sink; nil: they are only kept.
func NewReaders(sink taskrun.Sink, logger logr.Logger) *Readers {
	return &Readers{Kept: NewKept(), Patience: sinkPatience, sink: sink, logger: logger}
}

// Open opens the output of the key's start with that token, whose answers go elsewhere where that is not nil. The
// writing ends go to the starter. The log gets what goes wrong with it.
func (r *Readers) Open(
	key elect.Key, token int64, answers taskrun.Answers, log logr.Logger,
) (out *Pipes, stdout, stderr *os.File, err error) {
	outRead, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open a pipe for the output: %w", err)
	}
	errRead, stderr, err := os.Pipe()
	if err != nil {
		process.CloseFiles(outRead, stdout)
		return nil, nil, nil, fmt.Errorf("open a pipe for the output: %w", err)
	}
	r.Kept.Start(key, token)
	out = &Pipes{
		token: token, reads: []*os.File{outRead, errRead}, patience: r.Patience,
		done: make(chan struct{}), left: make(chan struct{}),
	}
	out.readers.Store(2)
	r.all.Go(func() { r.read(out, outRead, key, taskrun.Stdout, answers, log) })
	r.all.Go(func() { r.read(out, errRead, key, taskrun.Stderr, nil, log) })
	return out, stdout, stderr, nil
}

// End is called when nothing of the command is left. What it wrote last is passed on soon, and after a few seconds no
// longer. A call of the sink that does not return keeps its goroutine, and nothing else of the run. The next one waits
// for the same stream in its place.
func (o *Pipes) End() {
	timer := time.NewTimer(outputWait)
	defer timer.Stop()
	select {
	case <-o.done:
		return
	case <-timer.C:
	}
	drain := o.patience / 5 // to keep what is still in the pipes
	for _, f := range o.reads {
		_ = f.SetReadDeadline(time.Now().Add(o.patience + drain)) // it may be closed by now
	}
	time.AfterFunc(o.patience, func() {
		close(o.left)
		time.AfterFunc(drain, func() { process.CloseFiles(o.reads...) })
	})
}

// read keeps and passes on what comes from one pipe until its end, but for answers.
func (r *Readers) read(
	o *Pipes, from *os.File, key elect.Key, stream taskrun.Stream, answers taskrun.Answers, log logr.Logger,
) {
	place := r.Kept.sink(key, stream)
	var lost atomic.Int64
	pass := func(line string) {
		select {
		case place <- struct{}{}:
			r.sink.Line(key, stream, line)
			<-place
		case <-o.left:
			lost.Add(1)
		}
	}
	passed := func() {}
	if answers != nil {
		pass, passed = queued(pass, &lost)
	}
	longest := maxLine
	if answers != nil {
		longest = maxAnswer
	}
	err := splitLines(from, longest, func(text string, whole bool) {
		if answers != nil && whole && answers.Line(text) {
			return
		}
		for line := range pieces(text, maxLine) {
			r.Kept.Add(key, o.token, stream, line, time.Now())
			if r.sink != nil {
				pass(line)
			}
		}
	})
	process.CloseFiles(from)
	if answers != nil {
		answers.Closed()
	}
	passed()
	if o.readers.Add(-1) == 0 {
		close(o.done)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
		log.Error(err, "The task's output cannot be read")
	}
	if n := lost.Load(); n > 0 {
		log.Error(errSinkBlocked, "Lines of the task's output were not passed on", "lines", n)
	}
}

// maxQueued is how many lines beside answers wait for a sink.
const maxQueued = 256

// queued has lines passed on in the background: a sink that takes none must not hold up the answers after them. What
// the queue has no space for is lost. passed waits for the rest.
func queued(pass func(line string), lost *atomic.Int64) (add func(line string), passed func()) {
	lines, over := make(chan string, maxQueued), make(chan struct{})
	go func() {
		defer close(over)
		for line := range lines {
			pass(line)
		}
	}()
	add = func(line string) {
		select {
		case lines <- line:
		default:
			lost.Add(1)
		}
	}
	return add, func() {
		close(lines)
		<-over
	}
}

// errSinkBlocked says that a sink took nothing for longer than is waited for.
var errSinkBlocked = errors.New("the sink for output does not take lines")

// Await waits for the readers of commands' output, and for some seconds at most.
func (r *Readers) Await() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		r.all.Wait()
	}()
	limit := time.NewTimer(outputWait + 2*r.Patience)
	defer limit.Stop()
	select {
	case <-read:
	case <-limit.C:
		r.logger.Error(errSinkBlocked, "Output is left behind")
	}
}
