//go:build linux

package documents_test

import (
	"context"

	. "github.com/onsi/gomega"
)

// wholeRounds take a whole collection away, or all rows of a table, and at last everything.
func wholeRounds(on *scenes) {
	for _, kind := range kinds {
		on.round("all of kind "+kind+" are gone", func(ctx context.Context, s *scene) {
			if kind == "lock" {
				s.takesLocks()
			}
			s.clear(ctx, kind)
			s.healed(ctx)
			s.indexed(ctx)
		})
	}
	on.round("everything is gone", func(ctx context.Context, s *scene) {
		s.takesLocks()
		for _, kind := range kinds {
			s.clear(ctx, kind)
		}
		s.healed(ctx)
		s.indexed(ctx)
	})
}

// indexed waits until the collections that come back by themselves can be searched as before.
func (s *scene) indexed(ctx context.Context) {
	if m, ok := s.hand.(mongoHand); ok {
		Eventually(func() string { return m.indexes(ctx, "lock") }).Should(
			And(ContainSubstring("session_1_suspended_1"), ContainSubstring("group_1_rev_1")),
		)
	}
}
