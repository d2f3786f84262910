package sqlstore

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
)

// Apply implements [store.Store]. Up to [store.MaxBatch] changes are one transaction; longer lists are several.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, 0, len(changes))
	for batch := range slices.Chunk(changes, store.MaxBatch) {
		// The call may outlast its caller: it must not see what the caller does with its slices then.
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Doc.Body = slices.Clone(batch[i].Doc.Body)
		}
		got, err := await(
			ctx, s, func(ctx context.Context) ([]store.Outcome, error) { return s.engine.apply(ctx, batch) },
		)
		unknown := store.Outcome{Status: store.Unknown, Err: s.translate("write", err)}
		if err != nil && got == nil {
			got = slices.Repeat([]store.Outcome{unknown}, len(batch))
		}
		for i := range got {
			if got[i].Status == store.Unknown {
				got[i] = unknown
			}
		}
		outcomes = append(outcomes, got...)
	}
	return outcomes, nil
}
