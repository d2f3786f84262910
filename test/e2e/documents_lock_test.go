//go:build linux

package e2e_test

import (
	"context"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// lockRounds are about locks under their running owners.
func lockRounds(on *scene) {
	on.round("locks that still name their owner cost nothing, whatever else they say", func(
		ctx context.Context, s *scene,
	) {
		for i, fields := range []object{
			{"body": "no JSON"},
			{"body": "[]"},
			{"body": `{"token":"seven","status":[],"since":1e300}`},
			{"body": `{"message":"` + strings.Repeat("x", 100_000) + `"}`},
			{"body": []any{1, 2}},
			{"body": unset{}},
			{"suspended": "yes"},
			{"suspended": int64(17), "state": "zombie", "count": int64(-3)},
			{"next": "absent", "group": "another"},
			{"next": int64(3), "group": unset{}},
			{"writer": int64(5), "more": true},
			{"writer": unset{}, "count": "one"},
		} {
			s.edit(ctx, "lock", harness.Key(i+1), fields)
		}
		s.raise(ctx, "lock", harness.Key(1), 1000)
		s.healed(ctx)
		Expect(s.restarted()).To(BeEmpty())

		// A new start writes the lock, and fixes it.
		s.kill(s.c.Keys()...)
		Eventually(func() error { return s.c.CheckTaken(s.c.Keys(), s.began) }).Should(Succeed())
		s.healed(ctx)
		for _, key := range s.c.Keys() {
			Expect(s.read(ctx, "lock", key)["body"]).To(HavePrefix(`{"token":`), key)
		}
		s.logs("is malformed")
	}, Label(Nightly))

	on.round("locks whose revision is none are created again, with a larger token", func(
		ctx context.Context, s *scene,
	) {
		s.takesLocks()
		for i, number := range []any{
			"one", nil, int64(-7), int64(math.MaxInt64), math.NaN(), 5.5,
			unset{},
			[]any{int64(1)},
			int64(0), int64(-1), int64(1) << 60, "9",
		} {
			s.edit(ctx, "lock", harness.Key(i+1), object{"rev": number})
		}
		s.kill(s.c.Keys()...) // an owner that writes nothing notices nothing, and needs not
		Eventually(func() error { return s.c.CheckTaken(s.c.Keys(), s.began) }).Should(Succeed())
		s.healed(ctx)
		for _, key := range s.c.Keys() {
			Expect(s.read(ctx, "lock", key)).To(HaveKeyWithValue("rev", Satisfy(whole)), key)
		}
	}, Label(Nightly))

	on.round("locks that are deleted, or given to no one, are owned again", func(ctx context.Context, s *scene) {
		s.takesLocks()
		for i := range 4 {
			s.remove(ctx, "lock", harness.Key(i+1))
		}
		for i := range 2 {
			s.mustEdit(ctx, "lock", harness.Key(i+5), object{"session": ""})
		}
		s.raise(ctx, "lock", harness.Key(5), 1)
		lost := s.c.Keys()[:6]
		if s.edit(ctx, "lock", harness.Key(7), object{"session": unset{}}) {
			lost = append(lost, harness.Key(7))
		}
		Eventually(func() error { return s.c.CheckTaken(lost, s.began) }).Should(Succeed())
		s.healed(ctx)
	}, Label(Nightly))

	on.round("locks that name another live session, or one that never was, are owned again", func(
		ctx context.Context, s *scene,
	) {
		sessions := s.sessions(ctx)
		owners := Load(s.c).OwnersAt(s.began)
		for i := range 4 {
			key := harness.Key(i + 1)
			other := sessions[0]
			if owners[key].Session == other {
				other = sessions[1]
			}
			s.mustEdit(ctx, "lock", key, object{"session": other})
			if i%2 == 0 {
				s.raise(ctx, "lock", key, 1)
			}
		}
		for i := range 4 {
			key := harness.Key(i + 5)
			s.mustEdit(ctx, "lock", key, object{"session": "00000000-0000-4000-8000-00000000000" + string(rune('0'+i))})
			if i%2 == 0 {
				s.raise(ctx, "lock", key, 1)
			}
		}
		s.mustEdit(ctx, "lock", harness.Key(9), object{"session": strings.Repeat("long", 1000)})
		Eventually(func() error { return s.c.CheckTaken(s.c.Keys()[:8], s.began) }).Should(Succeed())
		s.healed(ctx)
		s.logs("did not claim it")
	}, Label(Nightly))
}
