//go:build linux

package documents_test

import (
	"context"

	. "github.com/onsi/gomega"
)

// memberRounds are about what instances say of themselves.
func memberRounds(on *scenes) {
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
		})
	}
}
