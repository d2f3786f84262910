package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

func TestSharedAreThoseNoOtherCanFind(t *testing.T) {
	of := func(reason, instance string) api.Problem {
		return api.Problem{Reason: reason, Severity: api.SeverityError, Message: reason, Instance: instance}
	}
	got := shared([]api.Problem{
		of(api.ProblemStopStuck, "a"), of(api.ProblemStopStuck, "b"), of(api.ProblemNoCapacity, ""),
		of(api.ProblemConfigDiffers, "a"), of(api.ProblemClockSkew, "a"), of(api.ProblemStoreUnreachable, "a"),
	}, "a")
	if len(got) != 2 || got[0].Reason != api.ProblemStopStuck || got[1].Reason != api.ProblemClockSkew {
		t.Errorf("%+v", got)
	}
}

func TestSharedAreFewAndShort(t *testing.T) {
	var all []api.Problem
	for i := range maxShared + 3 {
		all = append(all, api.Problem{
			Reason: api.ProblemStopStuck, Instance: "a", Task: fmt.Sprintf("g/%d", i),
			Message: strings.Repeat("é", elect.MaxText), Since: api.Millis(1),
		})
	}
	got := shared(all, "a")
	if len(got) != maxShared {
		t.Fatalf("%d problems, want %d", len(got), maxShared)
	}
	for i, p := range got {
		if len(p.Message) > elect.MaxText {
			t.Errorf("message %d has %d bytes", i, len(p.Message))
		}
		if last := i == maxShared-1; strings.HasSuffix(p.Message, " (and 3 more: ask a)") != last {
			t.Errorf("message %d ends with %q", i, p.Message[len(p.Message)-30:])
		}
	}
	doc := elect.Member{Instance: "a", Rev: 1, Problems: got}.Doc(driver.WriterID{Session: "s", Seq: 1})
	if m, err := record.MemberFrom(doc); err != nil || !slices.Equal(m.Problems, got) {
		t.Errorf("read back are %d problems of %d: %v", len(m.Problems), len(got), err)
	}
}

// What an instance says of itself is written when it changes: not for other words, and never without its lists.
func TestProblemsAreSharedWhenTheyChange(t *testing.T) {
	var said []elect.Member
	a := memberDoc{set: func(_ context.Context, m elect.Member) error { said = append(said, m); return nil }}
	stuck := record.Problem{Reason: api.ProblemStopStuck, Message: "since 10:00", Task: "g/k", Since: 1}
	reworded := stuck
	reworded.Message = "since an hour"
	now := time.Now()
	member := elect.Member{Instance: "a", ListHashes: map[string]string{"g": "1"}}
	relisted := elect.Member{Instance: "a", ListHashes: map[string]string{"g": "2"}}
	for i, step := range []struct {
		do   func() error
		said int
	}{
		{func() error { return a.share(t.Context(), []record.Problem{stuck}, nil, now) }, 0},
		{func() error { return a.declare(t.Context(), member) }, 1},
		{func() error { return a.share(t.Context(), []record.Problem{reworded}, nil, now) }, 1},
		{func() error { return a.declare(t.Context(), relisted) }, 2},
		{func() error { return a.share(t.Context(), nil, nil, now) }, 3},
		{func() error { return a.share(t.Context(), nil, nil, now) }, 3},
	} {
		if err := step.do(); err != nil || len(said) != step.said {
			t.Fatalf("step %d: %v, said %d times, want %d", i, err, len(said), step.said)
		}
	}
	for i, want := range []struct {
		hash     string
		problems []record.Problem
	}{{"1", []record.Problem{stuck}}, {"2", []record.Problem{stuck}}, {"2", nil}} {
		if got := said[i]; got.ListHashes["g"] != want.hash || !slices.Equal(got.Problems, want.problems) {
			t.Errorf("said %d: %+v, want %+v", i, got, want)
		}
	}
}

// That another application has come, or is ready, is written at once; its status every five seconds at most; and
// nothing while nothing changes.
func TestAnApplicationIsShared(t *testing.T) {
	var said []*record.Application
	d := memberDoc{declared: true, set: func(_ context.Context, m elect.Member) error {
		said = append(said, m.Application)
		return nil
	}}
	begin := time.Now()
	status := func(n string) map[string]string { return map[string]string{"n": n} }
	for i, step := range []struct {
		after time.Duration
		is    *record.Application
		said  int
		want  string
	}{
		{0, &record.Application{ID: "a", Message: "1"}, 1, "a 1 "},
		{0, &record.Application{ID: "a", Ready: true}, 2, "a  "},
		{time.Second, &record.Application{ID: "a", Ready: true, Status: status("1")}, 2, "a  "},
		{showEvery, &record.Application{ID: "a", Ready: true, Status: status("2")}, 3, "a  2"},
		{2 * showEvery, &record.Application{ID: "a", Ready: true, Status: status("2")}, 3, "a  2"},
		{showEvery + time.Second, &record.Application{ID: "a", Ready: true, Status: status("3")}, 3, "a  2"},
		{showEvery + time.Second, &record.Application{ID: "b", Ready: true}, 4, "b  "},
	} {
		if err := d.share(t.Context(), nil, step.is, begin.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		got := said[len(said)-1]
		if text := got.ID + " " + got.Message + " " + got.Status["n"]; text != step.want || len(said) != step.said {
			t.Errorf("step %d: %q, written %d times, want %q and %d", i, text, len(said), step.want, step.said)
		}
	}
}

// Lists that leave no space in the document count for more than problems.
func TestProblemsNeverKeepAListFromBeingDeclared(t *testing.T) {
	m := elect.Member{Instance: "a", ListHashes: map[string]string{"g": "1"}, Labels: map[string]string{}}
	for i := 0; m.Validate() == nil; i++ {
		m.Labels[fmt.Sprint(i)] = strings.Repeat("x", 1000)
	}
	for i := 0; m.Validate() != nil; i++ {
		delete(m.Labels, fmt.Sprint(i))
	}
	var said elect.Member
	a := memberDoc{set: func(_ context.Context, m elect.Member) error { said = m; return m.Validate() }}
	if err := a.declare(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	many := make([]record.Problem, maxShared)
	for i := range many {
		many[i] = record.Problem{Reason: api.ProblemStopStuck, Message: strings.Repeat("x", elect.MaxText)}
	}
	if err := a.share(t.Context(), many, nil, time.Now()); err != nil || said.Problems != nil || said.ListHashes["g"] != "1" {
		t.Errorf("%v, %d problems, hashes %v", err, len(said.Problems), said.ListHashes)
	}
}
