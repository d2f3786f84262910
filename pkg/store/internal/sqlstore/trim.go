package sqlstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// trimEvery is after how many changes a store trims the log. Others may have written what it trims.
	trimEvery = 1000
	// trimTimeout bounds that. What is left over is for the next time.
	trimTimeout = 10 * time.Second
)

// trims are the deletions of old lines of the log. They are no part of the call that was due to begin one: it has its
// outcomes by then.
type trims struct {
	ctx     context.Context // until the store ends
	cancel  context.CancelFunc
	running atomic.Bool // one at a time
	begun   sync.WaitGroup
}

func (t *trims) begin() { t.ctx, t.cancel = context.WithCancel(context.Background()) }

func (t *trims) end() {
	t.cancel()
	t.begun.Wait()
}

// trim deletes old lines of the log now and then, in a transaction of its own: those that write could wait for each
// other's lines. What fails is done the next time.
func (s *server) trim(changes int) {
	after := s.changes.Add(int64(changes))
	if after/trimEvery == (after-int64(changes))/trimEvery || !s.trims.running.CompareAndSwap(false, true) {
		return
	}
	s.trims.begun.Go(func() {
		defer s.trims.running.Store(false)
		ctx, cancel := context.WithTimeout(s.trims.ctx, trimTimeout)
		defer cancel()
		if err := s.trimNow(ctx); err != nil {
			s.log.V(1).Info("The log of notifications was not trimmed", "error", err.Error())
		}
	})
}

// trimNow counts as a batch: so a read has a connection meanwhile.
func (s *server) trimNow(ctx context.Context) error {
	_, err := s.transact(ctx, Common, s.batches, Statement{Text: s.sql.log.trim, Args: []any{int64(logKept)}})
	return err
}
