package jsonlines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Times within which what belongs together happens.
const (
	// inputEnd is how long a process may take to end once its input has, before it is stopped.
	inputEnd = time.Second
	// settle is how long a pipe that is closed waits for news of the process's end, which says more.
	settle = time.Second
)

// errClosed is why a process is over that is not needed any more.
var errClosed = errors.New("the subscription has ended")

// process is a started process. It implements [taskrun.Answers].
type process struct {
	log     logr.Logger
	timeout time.Duration
	input   input
	silent  chan struct{} // closed when no line comes any more
	warned  bool          // what lines should be; only Line looks at it

	mu      sync.Mutex
	waiting map[string]chan<- error // by the IDs of messages, for their answers
	why     error                   // it is over; nil: it is not
	over    chan struct{}           // closed when why is set: nothing is given to it any more

	child taskrun.Child
	hurry context.CancelCauseFunc // ends the time that it is given to end
	gone  chan struct{}           // closed when nothing of it is left
}

func newProcess(log logr.Logger, stdin *os.File, timeout time.Duration) *process {
	return &process{
		log: log, timeout: timeout, input: input{file: stdin, sem: make(chan struct{}, 1)},
		silent: make(chan struct{}), waiting: map[string]chan<- error{}, over: make(chan struct{}),
		gone: make(chan struct{}),
	}
}

// begin watches the process until nothing of it is left.
func (p *process) begin(ctx context.Context, child taskrun.Child) {
	p.child = child
	ctx, p.hurry = context.WithCancelCause(ctx)
	go p.watch(ctx)
}

// watch ends the process when it is over, and says so when it ends by itself.
func (p *process) watch(ctx context.Context) {
	defer close(p.gone)
	defer p.hurry(nil)
	select {
	case <-p.child.Exited():
	case <-p.over:
	case <-p.silent:
		if !within(settle, p.child.Exited(), p.over) {
			p.fail(errors.New("exec: the process closed its standard output"))
		}
	}
	p.input.end()
	if p.reason() == errClosed { //nolint:errorlint // it is this very one
		select {
		case <-p.child.Exited():
		case <-ctx.Done():
		case <-time.After(inputEnd):
		}
	}
	ending := p.child.End(ctx) // its last answers have been read by then
	switch {
	case ending.Cut:
	case ending.Err != nil:
		p.fail(fmt.Errorf("exec: the process has ended: %w", ending.Err))
	default:
		p.fail(errors.New("exec: the process has ended: exit status 0"))
	}
	p.fail(errors.New("exec: the process was stopped"))
	if why := p.reason(); !errors.Is(why, errClosed) {
		p.log.Error(why, "The process that takes messages has ended, and is started again for the next")
	}
}

// within waits for one of two things for so long, and says whether one has come.
func within(d time.Duration, a, b <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a:
	case <-b:
	case <-timer.C:
		return false
	}
	return true
}

// fail says why the process is over, the first time, and fails what it has not answered. Of several messages any may
// have been the reason.
func (p *process) fail(why error) { p.failFor("", why) }

// failFor is fail where one message is the reason; empty: it is not known which.
func (p *process) failFor(reason string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		return
	}
	p.why = why
	close(p.over)
	several := len(p.waiting) > 1
	for id, answered := range p.waiting {
		if several && id != reason {
			answered <- subscribe.Together(why)
		} else {
			answered <- why
		}
		delete(p.waiting, id)
	}
}

// reason is why it is over; nil: it is not.
func (p *process) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// close ends the process and returns when nothing of it is left.
func (p *process) close(ctx context.Context) {
	p.fail(errClosed)
	defer context.AfterFunc(ctx, func() { p.cut(ctx) })()
	<-p.gone
}

// cut leaves the process no more time to end than ctx has, which has ended: what is left of the lease, or none.
func (p *process) cut(ctx context.Context) {
	cause := context.Cause(ctx)
	if !errors.Is(cause, elect.ErrLeaseLost) {
		cause = fmt.Errorf("%w: %w", taskrun.ErrNoTime, cause)
	}
	p.hurry(cause)
}

// Line takes an answer: the ID of a message that is waited for, whatever it looks like, or an object that has it. IDs
// come first, since publishers make them.
func (p *process) Line(line string) bool {
	for _, id := range []string{strings.TrimSuffix(line, "\r"), strings.TrimSpace(line)} {
		if id != "" && p.answered(answer{id: id}) {
			return true
		}
	}
	if a, ok := readAnswer(line); ok && p.answered(a) {
		return true
	}
	if !p.warned {
		p.warned = true
		p.log.Info("Lines of the process that answer no message go to the task's log: an answer is " +
			`{"id": "ID", "ok": true}, {"id": "ID", "error": "why"}, or the bare id, of at most 1 MiB`)
	}
	return false
}

// answered passes on an answer, and says whether somebody waits for it.
func (p *process) answered(a answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.waiting[a.id]
	if waits == nil {
		return false
	}
	waits <- a.err
	delete(p.waiting, a.id)
	return true
}

// Closed says that no answer comes any more.
func (p *process) Closed() { close(p.silent) }

// deliver gives messages to the process, and waits for its answers.
func (p *process) deliver(ctx context.Context, deliveries []subscribe.Delivery) []error {
	errs, answers := make([]error, len(deliveries)), make([]given, len(deliveries))
	for i, d := range deliveries {
		answers[i], errs[i] = p.give(ctx, d)
	}
	for i, answer := range answers {
		if errs[i] == nil {
			errs[i] = p.await(ctx, answer)
		}
	}
	return errs
}

// given is a message that the process was given.
type given struct {
	id     string
	answer <-chan error
	until  time.Time // when it must have been answered
}

// give writes a message to the process. Where that takes longer than an answer may, the process is over: no one knows
// how much of the line it has.
func (p *process) give(ctx context.Context, d subscribe.Delivery) (given, error) {
	line, err := newLine(d)
	if err != nil {
		return given{}, err
	}
	id, answer := payload.Clean(d.ID), make(chan error, 1)
	g := given{id: id, answer: answer, until: time.Now().Add(p.timeout)}
	if err := p.expect(id, answer); err != nil {
		return given{}, err
	}
	switch err := p.input.write(ctx, line, g.until); {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.late(ctx, id, "did not read")
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		if !within(settle, p.over, nil) {
			p.fail(errors.New("exec: the process closed its standard input"))
		}
	default:
		p.fail(fmt.Errorf("exec: write to the process: %w", err))
	}
	return g, nil
}

// expect notes who waits for the answer to a message.
func (p *process) expect(id string, answer chan<- error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		return subscribe.Together(p.why) // it was not given this one
	}
	if p.waiting[id] != nil {
		return fmt.Errorf("exec: message %s is delivered already", id)
	}
	p.waiting[id] = answer
	return nil
}

// await waits for the answer to a message. A process that owes one is over when ctx ends: it cannot be asked to leave
// the message.
func (p *process) await(ctx context.Context, g given) error {
	timer := time.NewTimer(time.Until(g.until))
	defer timer.Stop()
	select {
	case err := <-g.answer:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case err := <-g.answer: // both came at once
		return err
	default:
	}
	p.late(ctx, g.id, "did not answer")
	return <-g.answer
}

// late fails the process, and with it all that it was given. When ctx has ended the time to stop in is over, too.
func (p *process) late(ctx context.Context, id, what string) {
	if cause := context.Cause(ctx); cause != nil {
		p.fail(fmt.Errorf("exec: the process %s message %s: %w", what, id, cause))
		p.cut(ctx)
		return
	}
	p.failFor(id, fmt.Errorf("exec: the process %s message %s within the timeout of %s", what, id, p.timeout))
}

// input is the standard input of a process.
type input struct {
	file *os.File
	sem  chan struct{} // has an element while somebody writes
}

// write writes one line at once. After until, or when ctx ends, the error wraps [os.ErrDeadlineExceeded].
func (w *input) write(ctx context.Context, line []byte, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case w.sem <- struct{}{}:
		defer func() { <-w.sem }()
	case <-timer.C:
		return os.ErrDeadlineExceeded
	case <-ctx.Done():
		return os.ErrDeadlineExceeded
	}
	if err := w.file.SetWriteDeadline(until); err != nil {
		return err
	}
	cut := make(chan struct{})
	uncut := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = w.file.SetWriteDeadline(time.Unix(1, 0)) // it may be closed by now
	})
	_, err := w.file.Write(line)
	if !uncut() {
		<-cut // so that it does not cut the next line
	}
	return err
}

// end closes it. A write that goes on fails.
func (w *input) end() { _ = w.file.Close() } // a pipe: nothing is buffered that could fail
