//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// numbers are what a number was edited into.
func numbers() []any {
	return []any{"one", nil, int64(-7), int64(math.MaxInt64), math.NaN(), 5.5, unset{}, []any{int64(1)}, int64(0)}
}

// sideRounds are about documents that no lease hangs on: values, overrides, events, counters.
func sideRounds(on *scene) {
	on.round("values, overrides and events may say anything", func(ctx context.Context, s *scene) {
		for i, body := range []any{"no JSON", "[]", `{"to":7}`, `{"to":{}}`, "", int64(12)} {
			key := harness.Key(i + 1)
			s.insert(ctx, "override", object{"_id": "pin/" + key, "rev": int64(1), "state": "pin", "body": body})
			s.insert(ctx, "value", object{"_id": key, "rev": int64(1), "group": harness.Group, "body": body})
			s.insert(ctx, "event", object{"_id": fmt.Sprintf("9%012d-hand-%06d", i, i), "rev": int64(1), "body": body})
		}
		for i, number := range numbers() {
			for _, kind := range []string{"override", "value", "event"} {
				s.insert(
					ctx, kind,
					object{"_id": fmt.Sprintf("zombie/%d", i), "rev": number, "state": "zombie", "body": "{}"},
				)
			}
		}
		s.insert(
			ctx, "override", object{"_id": "no-slash", "rev": int64(1), "state": "pause", "body": "{}", "more": true},
		)
		// as if they had been written by a program
		s.insert(ctx, "group", object{"_id": "~overrides", "rev": int64(1), "count": int64(77)})
		s.healed(ctx)
		s.logs("is malformed", "pin/"+harness.Key(1))
		for _, kind := range []string{"override", "value", "event"} {
			for _, id := range s.ids(ctx, kind) {
				s.remove(ctx, kind, id)
			}
		}
	}, Label(Nightly))

	on.round("counters that are no numbers go on counting", func(ctx context.Context, s *scene) {
		for i, number := range numbers() {
			s.edit(ctx, "group", harness.Group, object{"count": number})
			s.edit(ctx, "group", harness.Group, object{"rev": number})
			s.edit(ctx, "group", "~members", object{"count": number})
			key := harness.Key(i + 1)
			s.kill(key) // its next start raises the counter
			Eventually(func() []any {
				doc := s.read(ctx, "group", harness.Group)
				return []any{doc["count"], doc["rev"]}
			}).Should(HaveEach(Satisfy(whole)), "it was %v", number)
		}
		s.remove(ctx, "member", s.sessions(ctx)[0]) // its new one raises the other counter
		s.healed(ctx)
		Eventually(func() any { return s.read(ctx, "group", "~members")["count"] }).Should(Satisfy(whole))
	}, Label(Nightly))

	on.round("counters that are deleted, or set to 0, begin again", func(ctx context.Context, s *scene) {
		ids := s.ids(ctx, "group")
		for i, id := range ids {
			if i%2 == 0 {
				s.remove(ctx, "group", id)
			} else {
				s.mustEdit(ctx, "group", id, object{"count": int64(0)})
			}
		}
		s.healed(ctx)
		Expect(s.restarted()).To(BeEmpty())
	}, Label(Nightly))
}

// wholeRounds take a whole collection away, or all rows of a table, and at last everything.
func wholeRounds(on *scene) {
	for _, kind := range editedKinds {
		on.round("all of kind "+kind+" are gone", func(ctx context.Context, s *scene) {
			if kind == "lock" {
				s.takesLocks()
			}
			s.clear(ctx, kind)
			s.healed(ctx)
			s.indexed(ctx)
		}, Label(Nightly))
	}
	on.round("everything is gone", func(ctx context.Context, s *scene) {
		s.takesLocks()
		for _, kind := range editedKinds {
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
