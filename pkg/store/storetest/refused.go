package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Refused tests that writes which a database refuses are told with its own sentence, for each kind of document: those
// of the kind alone, and for as long as it does.
type Refused struct {
	// Open opens a client. It ends with the test.
	Open func(t *testing.T) driver.Store
	// Refuse has the database refuse new documents of a kind until mend is called, as what somebody changed by hand would.
	Refuse func(t *testing.T, kind driver.Kind) (mend func())
	// Says is a part of what the database says to that.
	Says string
}

// Run runs the test.
func (r Refused) Run(t *testing.T) {
	t.Helper()
	s := refusals.New(r.Open(t), 50*time.Millisecond, nil)
	seq := int64(0)
	write := func(kind driver.Kind) driver.Outcome {
		t.Helper()
		seq++
		id := fmt.Sprintf("g/%d", seq)
		c := driver.Change{Doc: driver.Doc{
			Kind: kind, ID: id, Group: "g", Rev: 1, State: driver.StateLive,
			WriterID: driver.WriterID{Session: id, Seq: seq},
		}}
		if kind == driver.KindGroup {
			c = increment(id)
		}
		return apply(t, s, c)
	}
	until := func(what string, kind driver.Kind, is func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !is(); {
			if out := write(kind); time.Now().After(end) {
				t.Fatalf("%s: not %s: %q, %s", kind, what, s.Lasting(), describe(out))
			}
			_ = clock.Sleep(t.Context(), 10*time.Millisecond)
		}
	}
	for _, kind := range driver.Kinds() {
		for _, k := range driver.Kinds() {
			until("answered", k, func() bool { return write(k).Status == driver.Applied })
		}
		mend := r.Refuse(t, kind)
		other := driver.Kinds()[(slices.Index(driver.Kinds(), kind)+1)%len(driver.Kinds())]
		until("refused", kind, func() bool {
			if out := write(other); out.Status != driver.Applied {
				t.Errorf("%s is refused, and so is %s: %s", kind, other, describe(out))
			}
			return s.Lasting() != ""
		})
		got := s.Lasting()
		if !strings.HasPrefix(got, "writes of "+kind.Info().Plural+" fail since ") || !strings.Contains(got, r.Says) {
			t.Errorf("%s: %q, want it to say %q", kind, got, r.Says)
		}
		wantHidden(t, got)
		mend()
		until("answered again", kind, func() bool { return s.Lasting() == "" })
	}
}

// Settings tests that what is changed at a database while clients are connected becomes a problem, and ends with it.
type Settings struct {
	// Open opens a client. It ends with the test.
	Open func(t *testing.T) driver.Store
	// Spoil changes a setting that matters, and Mend puts it back.
	Spoil, Mend func(t *testing.T)
	// Reason is that of the problem.
	Reason string
}

// Run runs the test.
func (c Settings) Run(t *testing.T) {
	t.Helper()
	s := c.Open(t)
	looker, ok := s.(interface {
		Look(ctx context.Context) error
	})
	if !ok {
		t.Fatalf("%T does not look at its settings again", s)
	}
	wants := func(want bool) {
		t.Helper()
		for end := time.Now().Add(patience); ; _ = clock.Sleep(t.Context(), 10*time.Millisecond) {
			err := looker.Look(t.Context())
			found := slices.ContainsFunc(store.Problems(s), func(p driver.Problem) bool { return p.Reason == c.Reason })
			switch {
			case err == nil && found == want:
				return
			case time.Now().After(end):
				t.Fatalf("%s: want %v, got %+v, %v", c.Reason, want, store.Problems(s), err)
			}
		}
	}
	wants(false)
	c.Spoil(t)
	wants(true)
	c.Mend(t)
	wants(false)
}
