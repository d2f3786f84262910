package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
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
	doc := elect.Member{Instance: "a", Rev: 1, Problems: got}.Doc(store.WriterID{Session: "s", Seq: 1})
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
	member := elect.Member{Instance: "a", ListHashes: map[string]string{"g": "1"}}
	relisted := elect.Member{Instance: "a", ListHashes: map[string]string{"g": "2"}}
	for i, step := range []struct {
		do   func() error
		said int
	}{
		{func() error { return a.share(t.Context(), []record.Problem{stuck}, nil) }, 0},
		{func() error { return a.declare(t.Context(), member) }, 1},
		{func() error { return a.share(t.Context(), []record.Problem{reworded}, nil) }, 1},
		{func() error { return a.declare(t.Context(), relisted) }, 2},
		{func() error { return a.share(t.Context(), nil, nil) }, 3},
		{func() error { return a.share(t.Context(), nil, nil) }, 3},
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
	if err := a.share(t.Context(), many, nil); err != nil || said.Problems != nil || said.ListHashes["g"] != "1" {
		t.Errorf("%v, %d problems, hashes %v", err, len(said.Problems), said.ListHashes)
	}
}
