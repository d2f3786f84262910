package elect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A replica that saw a key leave before it knows of the drain would believe that the giver has free capacity. It would
// hand it keys.
func TestDrainIsAnnouncedBeforeKeysAreReleased(t *testing.T) {
	for _, test := range []struct {
		name    string
		verdict memory.Verdict
		after   time.Duration // from asking until the View says Draining
	}{
		{"once the document says so", memory.Verdict{Delay: 20 * time.Millisecond}, 20 * time.Millisecond},
		{"or soon, when the store is unreachable", memory.Verdict{Fault: memory.Hang}, lease / 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				n := startNode(t, db, "a")
				eventually(t, time.Second, "open", func() bool { return n.View().Open })
				n.store.Fault(func(c memory.Call) memory.Verdict {
					if c.Op == memory.OpApply && c.Changes[0].Doc.Kind == driver.KindSession {
						return test.verdict
					}
					return memory.Verdict{}
				})
				if err := n.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				took := eventually(t, time.Second, "draining", func() bool { return n.View().Draining })
				// The loop looks at the clock every T/50.
				if took < test.after || took > test.after+lease/50+5*time.Millisecond {
					t.Errorf("the View said Draining after %v, want %v", took, test.after)
				}
				n.store.Fault(nil)
				n.stop()
			})
		})
	}
}
