package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
)

// What another program wrote for people to read must not cost an instance its caps.
func TestMembersKeepTheirCapsBesideBadProblems(t *testing.T) {
	good := Problem{Reason: "StopStuck", Severity: "error", Message: "does not stop", Task: "g/k", Since: 1}
	with := func(change func(*Problem)) Problem {
		p := good
		change(&p)
		return p
	}
	m := Member{Session: "s", Rev: 1, Instance: "a", Caps: map[string]int{"g": 2}, Problems: []Problem{
		with(func(p *Problem) { p.Reason = "" }),
		with(func(p *Problem) { p.Message = strings.Repeat("x", store.MaxText+1) }),
		with(func(p *Problem) { p.Since = -1 }),
		good,
		with(func(p *Problem) { p.Since = maxMoment + 1 }),
	}}
	got, err := MemberFrom(m.Doc(store.WriterID{Session: "s", Seq: 1}))
	if err != nil || got.Caps["g"] != 2 || !slices.Equal(got.Problems, []Problem{good}) {
		t.Errorf("%+v, %v", got, err)
	}
}
