package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

func ExampleNewParams() {
	p, err := protocol.NewParams(20*time.Second, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("heartbeat every", p.Heartbeat, "and after a failure every", p.Retry)
	fmt.Println("cancel at", p.Renew, "kill at", p.Kill, "nothing left at", p.Hard)
	fmt.Println("others may take over at", p.T)
	_, err = protocol.NewParams(20*time.Second, 16*time.Second)
	fmt.Println(err)
	// Output:
	// heartbeat every 2s and after a failure every 500ms
	// cancel at 15s kill at 16s nothing left at 18s
	// others may take over at 20s
	// renew deadline 16s: must be above 0 and at most 15s, three quarters of the lease duration 20s
}

func TestParamsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		lease, renew time.Duration
		ok           bool
	}{
		"smallest":          {time.Second, 0, true},
		"too small":         {time.Second - 1, 0, false},
		"three quarters":    {4 * time.Second, 3 * time.Second, true},
		"more":              {4 * time.Second, 3*time.Second + 1, false},
		"negative deadline": {4 * time.Second, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := protocol.NewParams(c.lease, c.renew)
			if (err == nil) != c.ok {
				t.Fatalf("error %v, want ok %v", err, c.ok)
			}
			inOrder := p.Renew < p.Kill && p.Kill < p.Hard && p.Hard < p.T && p.Op < p.Renew && p.Wake < p.Hard-p.Kill
			if err == nil && !inOrder {
				t.Errorf("out of order: %+v", p)
			}
		})
	}
}
