package storecopy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// pages lists all documents of a kind in order of their IDs, without the mark of a move. One that cannot be read is an
// error: who goes through all of them must not go on without it.
func pages(ctx context.Context, from Side, kind store.Kind) iter.Seq2[[]store.Doc, error] {
	return func(yield func([]store.Doc, error) bool) {
		q := store.Query{Limit: store.MaxBatch}
		for {
			found, err := listed(ctx, from, kind, q)
			if err != nil {
				yield(nil, fmt.Errorf("list the %s of %s: %w", kind.Info().Plural, from.Name, err))
				return
			}
			if len(found.Unreadable) > 0 && !yield(nil, &unreadableError{from.Name, found.Unreadable}) {
				return
			}
			full, docs := len(found.Docs) == q.Limit, found.Docs
			if full {
				q = q.After(docs[len(docs)-1].ID)
			}
			if !yield(withoutMark(docs), nil) || !full {
				return
			}
		}
	}
}

// unreadableError refuses a store with documents that cannot be read. It wraps [ErrRefused].
type unreadableError struct {
	store string
	all   []store.Unreadable
}

// Error implements error. It names one of them: there may be many.
func (e *unreadableError) Error() string {
	return fmt.Sprintf(
		"%v: %s holds %d documents that cannot be read, such as %s: somebody edited them: repair or remove them, and "+
			"copy again", ErrRefused, e.store, len(e.all), described(e.all[0]),
	)
}

// Unwrap implements what [errors.Is] asks for.
func (e *unreadableError) Unwrap() error { return ErrRefused }

func described(u store.Unreadable) string { return fmt.Sprintf("%s %.80q (%v)", u.Kind, u.ID, u.Err) }

func withoutMark(docs []store.Doc) []store.Doc {
	for i, d := range docs {
		if d.Kind == store.KindValue && d.ID == record.MoveID {
			return append(docs[:i:i], docs[i+1:]...)
		}
	}
	return docs
}

// listed lists, again while the store is away, for as long as patience goes.
func listed(ctx context.Context, from Side, kind store.Kind, q store.Query) (found store.Reply, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		found, err = from.List(ctx, kind, q)
		return err
	})
	return found, err
}

// applyOne sends one change until its outcome is known, for as long as patience goes.
func applyOne(ctx context.Context, to Side, c store.Change) (store.Outcome, error) {
	outs, err := applied(ctx, to, []store.Change{c})
	if err != nil {
		return store.Outcome{}, err
	}
	return outs[0], nil
}

// applied sends changes until all their outcomes are known, for as long as patience goes.
func applied(ctx context.Context, to Side, changes []store.Change) ([]store.Outcome, error) {
	outs := make([]store.Outcome, len(changes))
	open := make([]int, len(changes))
	for i := range open {
		open[i] = i
	}
	err := patiently(ctx, func(ctx context.Context) error {
		send := make([]store.Change, len(open))
		for i, at := range open {
			send[i] = changes[at]
		}
		answers, err := to.Apply(ctx, send...)
		if err != nil {
			return err
		}
		var left []int
		for i, at := range open {
			if outs[at] = answers[i]; answers[i].Status == store.Unknown {
				left, err = append(left, at), answers[i].Err
			}
		}
		open = left
		return err
	})
	return outs, err
}

const (
	perTry = 20 * time.Second // one call
	pause  = 200 * time.Millisecond
)

// patiently calls f until it fails otherwise than because the store is away, or patience is over.
func patiently(ctx context.Context, f func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for {
		try, cancel := context.WithTimeout(ctx, perTry)
		err := f(try)
		cancel()
		if err == nil || !errors.Is(err, store.ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
