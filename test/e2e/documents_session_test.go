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

// sessionRounds are about sessions of live replicas, and of no one.
func sessionRounds(on *scene) {
	on.round("sessions whose revision stays are repaired by their next heartbeat", func(ctx context.Context, s *scene) {
		ids := s.sessions(ctx)
		for _, fields := range []object{
			{"state": "zombie"},
			{"state": unset{}},
			{"state": int64(4)},
			{"count": int64(-7)},
			{"count": int64(math.MaxInt64)},
			{"count": "one"},
			{"body": "no JSON"},
			{"body": `{"leaseMs":"long","granted":[]}`},
			{"body": `{"leaseMs":9000000000000000}`},
			{"writer": int64(5)},
			{"more": true, "body": []any{}},
		} {
			for _, id := range ids {
				s.edit(ctx, "session", id, fields)
			}
		}
		s.healed(ctx)
		Expect(s.restarted()).To(BeEmpty())
		Expect(s.sessions(ctx)).To(Equal(ids))
	}, Label(Nightly))

	on.round("sessions whose revision is another, or none, end, and new ones take their place", func(
		ctx context.Context, s *scene,
	) {
		ids := s.sessions(ctx)
		s.raise(ctx, "session", ids[0], 5)
		if !s.edit(ctx, "session", ids[1], object{"rev": "one"}) {
			s.mustEdit(ctx, "session", ids[1], object{"rev": int64(-1)})
		}
		if !s.edit(ctx, "session", ids[2], object{"rev": math.NaN()}) {
			s.mustEdit(ctx, "session", ids[2], object{"rev": int64(math.MaxInt64)})
		}
		s.healed(ctx)
		for _, id := range ids {
			Expect(s.sessions(ctx)).NotTo(ContainElement(id))
			Eventually(func() object { return s.read(ctx, "session", id) }).Should(HaveKeyWithValue("state", "dead"))
		}
	}, Label(Nightly))

	on.round("live sessions that are written dead end", func(ctx context.Context, s *scene) {
		s.takesLocks()
		ids := s.sessions(ctx)
		s.mustEdit(ctx, "session", ids[0], object{"state": "dead"})
		s.mustEdit(ctx, "session", ids[1], object{"state": "dead"})
		s.raise(ctx, "session", ids[1], 1)
		s.healed(ctx)
		Expect(s.sessions(ctx)).NotTo(ContainElement(ids[1]))
	})

	on.round("sessions that are deleted end, also when they come back", func(ctx context.Context, s *scene) {
		ids := s.sessions(ctx)
		var before []object
		for _, id := range ids {
			before = append(before, s.read(ctx, "session", id))
			s.remove(ctx, "session", id)
		}
		WaitUntil(ctx, s.began.Add(Lease/2))
		s.insert(ctx, "session", before[1])
		WaitUntil(ctx, s.began.Add(2*Lease))
		s.insert(ctx, "session", before[2])
		s.healed(ctx)
		for i, id := range ids {
			Expect(s.sessions(ctx)).NotTo(ContainElement(id))
			Eventually(func() object { return s.read(ctx, "session", id) }).Should(
				HaveKeyWithValue("state", "dead"), "session %d", i,
			)
		}
	}, Label(Nightly))

	on.round("a session that comes back before its next heartbeat goes on", func(ctx context.Context, s *scene) {
		ids := s.sessions(ctx)
		for _, id := range ids {
			doc := s.read(ctx, "session", id)
			s.remove(ctx, "session", id)
			s.insert(ctx, "session", doc)
		}
		s.healed(ctx) // some may have met the gap
	}, Label(Nightly))

	on.round("sessions of no one are dead soon, and hold nothing up", func(ctx context.Context, s *scene) {
		ids := s.sessions(ctx)
		session, member := s.read(ctx, "session", ids[0]), s.read(ctx, "member", ids[0])
		session["_id"], member["_id"] = "never-opened", "never-opened"
		s.insert(ctx, "member", member)
		s.insert(ctx, "session", session)
		s.insert(ctx, "session", object{"_id": "zombie", "rev": int64(3), "state": "zombie", "body": "{}"})
		s.insert(ctx, "session", object{
			"_id": "long", "rev": int64(3), "state": "live", "count": int64(1), "body": `{"leaseMs":9000000000000000}`,
		})
		s.insert(ctx, "session", object{"_id": "no-body", "rev": int64(3), "state": "draining"})
		for _, kind := range editedKinds {
			for i, number := range numbers() {
				s.insert(ctx, kind, object{
					"_id": fmt.Sprintf("%s/hand-%d", harness.Group, i), "rev": number, "state": "live",
					"group": harness.Group, "session": "absent",
				})
			}
			s.insert(ctx, kind, object{"_id": int64(7), "rev": int64(1), "state": "live"})
			s.insert(ctx, kind, object{"_id": object{"a": 1}, "rev": int64(1), "state": "live"})
		}
		for _, id := range []string{"never-opened", "long", "no-body"} {
			Eventually(func() object { return s.read(ctx, "session", id) }).Should(
				HaveKeyWithValue("state", "dead"), id,
			)
		}
		s.healed(ctx)
	}, Label(Nightly))
}

// memberRounds are about what instances say of themselves.
func memberRounds(on *scene) {
	for what, hands := range map[string]func(ctx context.Context, s *scene, ids []string){
		"are deleted": func(ctx context.Context, s *scene, ids []string) {
			for _, id := range ids {
				s.remove(ctx, "member", id)
			}
		},
		"make no sense": func(ctx context.Context, s *scene, ids []string) {
			s.mustEdit(ctx, "member", ids[0], object{"body": "no JSON"})
			s.mustEdit(ctx, "member", ids[1], object{"body": `{"instance":7,"caps":[]}`})
			s.mustEdit(
				ctx, "member", ids[2],
				object{"body": `{"instance":"r3","caps":{"topics":-5},"maxTasks":-1,"leaseMs":9e18}`},
			)
		},
		"have a revision that is none": func(ctx context.Context, s *scene, ids []string) {
			for i, number := range []any{int64(-1), int64(1) << 60, int64(0)} {
				s.mustEdit(ctx, "member", ids[i], object{"rev": number})
			}
			s.edit(ctx, "member", ids[0], object{"rev": "one"})
		},
		"say what is not so": func(ctx context.Context, s *scene, ids []string) {
			s.mustEdit(ctx, "member", ids[0], object{"body": `{"instance":"r1","caps":{"topics":0}}`})
			s.mustEdit(ctx, "member", ids[1], object{"body": `{"instance":"somebody else"}`})
			s.raise(ctx, "member", ids[2], 1000)
		},
	} {
		on.round("members that "+what+" are written again by those they speak for", func(
			ctx context.Context, s *scene,
		) {
			ids := s.sessions(ctx)
			hands(ctx, s, ids)
			for i, id := range ids {
				Eventually(func() object { return s.read(ctx, "member", id) }).
					Should(And(
						HaveKeyWithValue("rev", Satisfy(whole)),
						HaveKeyWithValue("body", ContainSubstring(`"instance":"%s"`, s.c.Live()[i].Name)),
					))
			}
			s.healed(ctx)
			s.logs("deleted or edited")
		}, Label(Nightly))
	}
}
