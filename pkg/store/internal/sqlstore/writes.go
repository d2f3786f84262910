package sqlstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// write is a list of changes that has its results once done is closed.
type write struct {
	ctx     context.Context //nolint:containedctx // of the call that waits for it
	changes []driver.Change

	results []dbstore.Result
	err     error
	done    chan struct{}
}

// writes are those that wait for the writer. The zero value is empty.
type writes struct {
	mu      sync.Mutex
	waiting []*write
}

func (q *writes) add(x *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, x)
}

// take is what has waited longest, as much as a batch may have.
func (q *writes) take() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, changes := 0, 0
	for n < len(q.waiting) && (n == 0 || changes+len(q.waiting[n].changes) <= driver.MaxBatch) {
		changes += len(q.waiting[n].changes)
		n++
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// remove says whether a write was waiting still. Else someone writes it.
func (q *writes) remove(x *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, x)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// writeTogether writes a batch in one transaction. What failed before its COMMIT was not written, and each write is
// tried alone: neither an error nor the end of waiting of one is that of the others.
func (w *writer) writeTogether(batch []*write) {
	if len(batch) == 0 {
		return
	}
	err := w.write(batch...)
	for _, x := range batch {
		if x.err = err; len(batch) > 1 && err != nil && !errors.Is(err, errCommit) {
			x.err = w.write(x)
		}
		close(x.done)
	}
}

// write writes all in one transaction, and waits for other processes for as long as the first one may. Where a change
// cannot be noted nothing was written yet, and all is written without that.
func (w *writer) write(all ...*write) error {
	return w.file.noting(func(how noting) error {
		return w.transaction(all[0].ctx, func(ctx context.Context) error { return w.writeAll(ctx, how, all) })
	}, func(_ noting, err error) bool {
		_, is := errors.AsType[noteError](err)
		return is
	})
}

func (w *writer) writeAll(ctx context.Context, how noting, all []*write) error {
	for _, x := range all {
		x.results = make([]dbstore.Result, len(x.changes))
		for i, c := range x.changes {
			var err error
			if x.results[i], err = w.cas(ctx, c, how); err != nil {
				return err
			}
		}
	}
	return nil
}
