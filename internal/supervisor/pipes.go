package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// How long output is waited for once nothing of its command is left. First the key waits for so long, and for no log.
// Then the wait goes on in the background, for a sink that takes nothing and for ends of the pipes that another process
// still has.
const (
	outputWait   = 250 * time.Millisecond
	sinkPatience = 5 * time.Second
)

// output is the reading side of one command's pipes. The pipes are the queue: a reader that waits for the sink fills
// them, and that holds up the command.
type output struct {
	token    int64 // of the start
	reads    []*os.File
	readers  atomic.Int32
	done     chan struct{} // closed when all readers have ended
	left     chan struct{} // closed when the sink is waited for no longer
	patience time.Duration
}

// pipes opens the output of the start with that token, whose answers go elsewhere where that is not nil. The writing
// ends go to the starter.
func (s *scope) pipes(token int64, answers tasks.Answers) (out *output, stdout, stderr *os.File, err error) {
	outRead, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open a pipe for the output: %w", err)
	}
	errRead, stderr, err := os.Pipe()
	if err != nil {
		process.CloseFiles(outRead, stdout)
		return nil, nil, nil, fmt.Errorf("open a pipe for the output: %w", err)
	}
	s.shared.logs.start(s.hold.Key(), token)
	out = &output{
		token: token, reads: []*os.File{outRead, errRead}, patience: s.shared.outputEnd,
		done: make(chan struct{}), left: make(chan struct{}),
	}
	out.readers.Store(2)
	s.shared.readers.Go(func() { s.read(out, outRead, tasks.Stdout, answers) })
	s.shared.readers.Go(func() { s.read(out, errRead, tasks.Stderr, nil) })
	return out, stdout, stderr, nil
}

// end is called when nothing of the command is left. What it wrote last is passed on soon, and after a few seconds no
// longer. A call of the sink that does not return keeps its goroutine, and nothing else of the run. The next one waits
// for the same stream in its place.
func (o *output) end() {
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
func (s *scope) read(o *output, from *os.File, stream tasks.Stream, answers tasks.Answers) {
	sink, key := s.shared.cfg.Output, s.hold.Key()
	place := s.shared.logs.sink(key, stream)
	var lost atomic.Int64
	pass := func(line string) {
		select {
		case place <- struct{}{}:
			sink.Line(key, stream, line)
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
			s.shared.logs.add(key, o.token, stream, line, time.Now())
			if sink != nil {
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
		s.log.Error(err, "The task's output cannot be read")
	}
	if n := lost.Load(); n > 0 {
		s.log.Error(errSinkBlocked, "Lines of the task's output were not passed on", "lines", n)
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

// awaitReaders waits for the readers of commands' output.
func (m *shared) awaitReaders() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		m.readers.Wait()
	}()
	limit := time.NewTimer(outputWait + 2*m.outputEnd)
	defer limit.Stop()
	select {
	case <-read:
	case <-limit.C:
		m.cfg.Logger.Error(errSinkBlocked, "Output is left behind")
	}
}
