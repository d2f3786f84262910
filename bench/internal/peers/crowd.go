//go:build linux

package peers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

const (
	crowdSize    = 50 // callers that wait for one lock
	crowdHolders = 5  // processes that they are in, each caller with a client of its own
	crowdTime    = 60 * time.Second
	// holdFor is how long each keeps the lock, besides the way of the orders.
	holdFor = 5 * time.Millisecond
)

// crowd is what many who wait for one lock saw.
type crowd struct {
	gaps      []time.Duration // from a release to the return of the next acquire
	overtaken []int           // of each round: how many later askers got it before one, at most
	unserved  int             // who had not got it after crowdTime
}

// crowds has many wait for one lock, in a known order, and then lets each hold it for a moment.
func (c *column) crowds(ctx context.Context, rounds int) error {
	all, end, err := c.members(ctx, "crowd", crowdHolders, crashLease)
	defer end()
	if err != nil {
		return err
	}
	for i := range crowdSize + 1 {
		if _, err := all[i%crowdHolders].do(ctx, "open", crowdKey(i)); err != nil {
			return err
		}
	}
	for range rounds {
		if err := c.crowd(ctx, all); err != nil {
			return err
		}
		if c.crowded.unserved > 0 {
			return nil // they still wait
		}
	}
	return nil
}

func crowdKey(i int) string { return fmt.Sprintf("crowd#%d", i) }

// turn is one caller's.
type turn struct {
	caller int
	answer
}

func (c *column) crowd(ctx context.Context, all []*member) error {
	of := func(caller int) *member { return all[caller%crowdHolders] }
	if _, err := of(crowdSize).do(ctx, "acquire", crowdKey(crowdSize)); err != nil {
		return err
	}
	turns := make(chan turn, crowdSize)
	for i := range crowdSize {
		asked := of(i).order("acquire", crowdKey(i))
		go func() { turns <- turn{i, of(i).await(ctx, asked)} }()
		if err := lab.Pause(ctx, 10*time.Millisecond+moment(20*time.Millisecond)); err != nil {
			return err
		}
	}
	if err := lab.Pause(ctx, time.Second); err != nil {
		return err
	}
	served, err := c.serve(ctx, of, turns)
	c.crowded.overtaken = append(c.crowded.overtaken, overtaken(served, crowdSize))
	return err
}

// serve lets one after the other have the lock, and returns who had it, in order.
func (c *column) serve(ctx context.Context, of func(int) *member, turns <-chan turn) (served []int, err error) {
	limit := time.NewTimer(crowdTime - 5*time.Second) // before answers run out
	defer limit.Stop()
	released, err := of(crowdSize).do(ctx, "release", crowdKey(crowdSize))
	for len(served) < crowdSize && err == nil {
		select {
		case t := <-turns:
			if t.err != nil {
				return served, fmt.Errorf("caller %d of %d: %w", t.caller, crowdSize, t.err)
			}
			served = append(served, t.caller)
			c.crowded.gaps = append(c.crowded.gaps, t.end.Sub(released.begin))
			if err := lab.Pause(ctx, holdFor); err != nil {
				return served, err
			}
			released, err = of(t.caller).do(ctx, "release", crowdKey(t.caller))
		case <-limit.C:
			c.crowded.unserved = crowdSize - len(served)
			return served, nil
		}
	}
	return served, err
}

// overtaken is how many later askers got it before one, at most. Callers are numbered as they asked, up to n. Who is
// not among the served came after all of them.
func overtaken(served []int, n int) (most int) {
	for caller := range n {
		at := slices.Index(served, caller)
		if at < 0 {
			at = len(served)
		}
		later := 0
		for _, before := range served[:at] {
			if before > caller {
				later++
			}
		}
		most = max(most, later)
	}
	return most
}

// gap shows the hand-overs of a crowd.
func (c crowd) gap() string {
	if len(c.gaps) == 0 {
		return none
	}
	text := fmt.Sprintf("%s / %s", lab.MS(history.Percentile(c.gaps, 50)), lab.MS(history.Percentile(c.gaps, 99)))
	if c.unserved > 0 {
		text += fmt.Sprintf("; %d of %d had not got it after %v", c.unserved, crowdSize, crowdTime)
	}
	return text
}
