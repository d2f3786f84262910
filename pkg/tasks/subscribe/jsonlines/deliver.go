package jsonlines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/payload"
)

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
	turn chan struct{} // has an element while somebody writes
}

// write writes one line at once. After until, or when ctx ends, the error wraps [os.ErrDeadlineExceeded].
func (w *input) write(ctx context.Context, line []byte, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
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
