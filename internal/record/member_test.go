package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
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
		with(func(p *Problem) { p.Message = strings.Repeat("x", driver.MaxText+1) }),
		with(func(p *Problem) { p.Since = -1 }),
		good,
		with(func(p *Problem) { p.Since = maxMoment + 1 }),
	}}
	got, err := MemberFrom(m.Doc(driver.WriterID{Session: "s", Seq: 1}))
	if err != nil || got.Caps["g"] != 2 || !slices.Equal(got.Problems, []Problem{good}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A reader that panics is one that could not read the body.
func TestAPanicOfAReaderIsAnError(t *testing.T) {
	read := func(d driver.Doc) (string, error) {
		if d.Body != nil {
			panic("as an index out of range")
		}
		return d.ID + " without a body", nil
	}
	d := driver.Doc{Kind: driver.KindLock, ID: "g/k", Body: []byte("{}")}
	got, err := Guarded(d, read)
	if got != "g/k without a body" || err == nil || !strings.Contains(err.Error(), `lock "g/k": body: `) ||
		!strings.Contains(err.Error(), "index out of range") {
		t.Errorf("%q, %v", got, err)
	}
	got, err = Guarded(d, func(driver.Doc) (string, error) { panic("always") })
	if got != "" || err == nil || !strings.Contains(err.Error(), "always") {
		t.Errorf("%q, %v", got, err)
	}
}
