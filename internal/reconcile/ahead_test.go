package reconcile

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
)

// What a clock has noted that was a year ahead does not last until then.
func TestMarksOfAClockThatWasFarAhead(t *testing.T) {
	ahead := func(v *cluster.View) int64 { return v.Now + (365 * 24 * time.Hour).Milliseconds() }
	t.Run("Lock.Since", func(t *testing.T) {
		v, d := seenBy(20, 20, 20, 20, 20)
		v.Locks["g/100"] = &record.Lock{
			Key: "g/100", Token: 1, Reason: record.ReasonShutdown, From: "z", Since: ahead(v),
		}
		if _, report := decideFor(v, d, Policy{RestartGrace: time.Minute}); len(report.Unassigned) > 0 {
			t.Errorf("it waits for its owner to come back: %+v", report.Unassigned)
		}
	})
	t.Run("Override.At", func(t *testing.T) {
		v, _ := seenBy(1)
		v.Overrides = []record.Override{
			{Kind: record.OverrideRebalance, Scope: record.ScopeGroup, Name: "g", At: ahead(v)},
		}
		if is := overridesOf(v).evened; len(is) > 0 {
			t.Errorf("the group is spread at once for a year: %+v", is)
		}
	})
	t.Run("Member.Opened", func(t *testing.T) {
		v, d := seenBy(1, 1)
		v.Sessions[0].Member.Revision, v.Sessions[0].Member.Opened = "old", ahead(v)
		v.Sessions[1].Member.Revision, v.Sessions[1].Member.Opened = "new", v.Now
		members := newSituation(v, d, Policy{}, Calm{}).planMembers()
		if members[0].Opened >= members[1].Opened {
			t.Errorf("the old revision counts as the newer one: %+v", members)
		}
	})
}
