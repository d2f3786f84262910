package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// said is what one server answered.
type said[T any] struct {
	server int
	value  T
	err    error
}

// ask asks all servers at once; each answers once, and the channel has room for all. It goes on when the caller does
// not wait any longer: the servers that are slower are to have the same. The calls are bounded by the time-out of
// requests and by the store's end.
func ask[T any](ctx context.Context, s *Store, f func(context.Context, *server) (T, error)) <-chan said[T] {
	answers := make(chan said[T], len(s.servers))
	for i, at := range s.servers {
		one := func() {
			var got said[T]
			got.server = i
			if !at.pace.begin(time.Now()) {
				got.err = fmt.Errorf("server %d: %w: %w", i+1, store.ErrUnavailable, errBusy)
				answers <- got
				return
			}
			own, release := s.life.Bound(context.WithoutCancel(ctx))
			defer release()
			got.value, got.err = f(own, at)
			at.pace.end(own.Err() == nil, time.Now())
			if got.err != nil {
				at.fail()
				got.err = fmt.Errorf("server %d: %w", i+1, got.err)
			}
			answers <- got
		}
		if !s.life.Go(one) {
			answers <- said[T]{server: i, err: errClosed}
		}
	}
	return answers
}

// tooFew says that no majority has answered, and why.
func (s *Store) tooFew(answered int, why error) error {
	n := len(s.servers)
	return fmt.Errorf(
		"%w: %d of %d servers answered, want %d: %w", store.ErrUnavailable, answered, n, quorum.Majority(n), why,
	)
}

// gather hands answers to take as they come, until that has enough: nil. Else the error says why there are no more:
// what each server has failed with, and that patience or ctx is over. It is nil as well when all have answered without
// one.
func gather[T any](ctx context.Context, answers <-chan said[T], wait *patience,
	take func(said[T]) (enough bool),
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
				wait.hurry()
			}
			if take(got) {
				return nil
			}
		}
	}
	return join(errs...)
}
