package store

import (
	"context"
	"errors"
	"fmt"
)

// Clean deletes up to limit documents of a kind that have expired by now, the store's Unix ms. Each is deleted by
// compare-and-set: one that was written meanwhile stays. It returns the ids of those that are gone; what is unknown is
// tried again by the next call.
func Clean(ctx context.Context, s Store, kind Kind, now int64, limit int) ([]string, error) {
	found, err := s.List(ctx, kind, Query{Expired: now, Limit: limit, NoBody: true})
	if err != nil || len(found.Docs) == 0 {
		return nil, err
	}
	changes := make([]Change, len(found.Docs))
	for i, d := range found.Docs {
		changes[i] = Change{Op: Delete, IfRev: d.Rev, Doc: Doc{Kind: kind, ID: d.ID}}
	}
	outcomes, err := s.Apply(ctx, changes...)
	if err != nil {
		return nil, fmt.Errorf("clean %s: %w", kind, err)
	}
	var gone []string
	var errs []error
	for i, out := range outcomes {
		switch {
		case out.Status == Applied, out.Status == Overtaken && out.Doc == nil:
			gone = append(gone, changes[i].Doc.ID)
		case out.Status == Unknown && len(errs) == 0:
			errs = append(errs, out.Err)
		}
	}
	return gone, errors.Join(errs...)
}
