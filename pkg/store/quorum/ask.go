package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// answerOf is what one server answered.
type answerOf[T any] struct {
	server int
	value  T
	err    error
}

// ask asks all servers at once; each answers once, and the channel holds all answers. It goes on when the caller does
// not wait any longer: the servers that are slower are to have the same. The calls are bounded by the time-out of
// requests and by the store's end.
func ask[T any](ctx context.Context, m *members, f func(context.Context, *server) (T, error)) <-chan answerOf[T] {
	answers := make(chan answerOf[T], len(m.all))
	for i, at := range m.all {
		one := func() {
			var got answerOf[T]
			got.server = i
			if !at.pace.begin(time.Now()) {
				got.err = fmt.Errorf("server %d: %w: %w", i+1, driver.ErrUnavailable, errBusy)
				answers <- got
				return
			}
			own, release := m.life.Bound(context.WithoutCancel(ctx))
			defer release()
			got.value, got.err = f(own, at)
			at.pace.end(own.Err() == nil, time.Now())
			if got.err != nil {
				at.fail(got.err)
				got.err = fmt.Errorf("server %d: %w", i+1, got.err)
			}
			answers <- got
		}
		if !m.life.Go(one) {
			answers <- answerOf[T]{server: i, err: errClosed}
		}
	}
	return answers
}

// tooFew says that no majority has answered, and why.
func (m *members) tooFew(answered int, why error) error {
	return fmt.Errorf("%w: %d of %d servers answered, want %d: %w", driver.ErrUnavailable, answered, len(m.all),
		m.majority(), why)
}

// gather hands answers to take as they come, until that has enough: nil. Else the error says why there are no more:
// what each server has failed with, and that patience or ctx is over. It is nil as well when all have answered without
// one.
func gather[T any](ctx context.Context, answers <-chan answerOf[T], wait *patience,
	take func(answerOf[T]) (enough bool),
) error {
	var errs []error
	for range cap(answers) {
		select {
		case <-ctx.Done():
			return join(append(errs, context.Cause(ctx))...)
		case <-wait.over():
			return join(append(errs, errSlow)...)
		case got := <-answers:
			if got.err != nil {
				errs = append(errs, got.err)
				wait.onFailure()
			}
			if take(got) {
				return nil
			}
		}
	}
	return join(errs...)
}

// A server that has not answered anything for silentAfter, though it was asked, is asked again only every probeEvery.
// Else requests that wait for it would gather, and keep it from being used when it is back.
const (
	silentAfter = 250 * time.Millisecond
	probeEvery  = 100 * time.Millisecond
	maxCalls    = 256 // at once
)

// pace decides whether a server is asked at all.
type pace struct {
	mu      sync.Mutex
	calls   int
	since   time.Time // from when on no answer has come
	probing time.Time // when it was last asked though it was silent
}

// begin says whether a request may go out now. Each that does ends with end.
func (p *pace) begin(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.calls == 0:
		p.since = now
	case p.calls >= maxCalls:
		return false
	case now.Sub(p.since) > silentAfter:
		if now.Sub(p.probing) < probeEvery {
			return false
		}
		p.probing = now
	}
	p.calls++
	return true
}

// end takes note that a request is over, and whether the server has answered it.
func (p *pace) end(answered bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	if answered {
		p.since = now
	}
}

var errSlow = errors.New("too few servers have answered so far")

// How long a message waits for servers that have not answered, on the first try. It doubles with each try: servers may
// be slow. It is shorter once a server has failed, since that one may be back for the next try.
const (
	patienceAtFirst   = 50 * time.Millisecond
	patienceAfterward = 10 * time.Millisecond
	maxDoublings      = 10 // to 10 s: a long list, or a slow machine, may take seconds
)

// grace is how long a message waits for the other servers once a majority has answered, and differs.
const grace = 5 * time.Millisecond

// patience is a timer for one message. Nil waits for ever.
type patience struct {
	timer *time.Timer
	left  time.Duration // as it was set last
	try   int
}

func newPatience(try int) *patience {
	try = min(try, maxDoublings)
	left := patienceAtFirst << try
	return &patience{timer: time.NewTimer(left), left: left, try: try}
}

func (p *patience) over() <-chan time.Time {
	if p == nil {
		return nil
	}
	return p.timer.C
}

// onFailure says that a server has failed.
func (p *patience) onFailure() {
	if p != nil {
		p.shorten(patienceAfterward << p.try)
	}
}

// shorten sets the timer again, unless it was set to so short a time before.
func (p *patience) shorten(to time.Duration) {
	if to < p.left {
		p.left = to
		p.timer.Reset(to)
	}
}

func (p *patience) stop() { p.timer.Stop() }

// unavailable says what was tried. What is not about the set-up may succeed when repeated.
func unavailable(what string, err error) error {
	for _, known := range []error{driver.ErrUnavailable, driver.ErrMalformed, driver.ErrInvalid, driver.ErrCannotWatch} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", what, driver.ErrUnavailable, err)
}

// causes are errors of several servers. Unlike those of [errors.Join] they are in one line, as people read them in
// logs.
type causes []error

// Error implements error.
func (c causes) Error() string {
	texts := make([]string, len(c))
	for i, err := range c {
		texts[i] = err.Error()
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// Unwrap returns all of them.
func (c causes) Unwrap() []error { return c }

// join leaves out what is nil. It is nil where all are.
func join(errs ...error) error {
	all := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(all) == 0 {
		return nil
	}
	return causes(all)
}
