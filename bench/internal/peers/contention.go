//go:build linux

package peers

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	crowdSize    = 50 // callers that wait for one lock
	crowdHolders = 5  // processes that they are in, each caller with a client of its own
	crowdTime    = 60 * time.Second
	// holdFor is how long each keeps the lock, besides the way of the orders.
	holdFor = 5 * time.Millisecond
)

// crowd is what many waiters of one lock measured.
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
		if err := clock.Sleep(ctx, 10*time.Millisecond+moment(20*time.Millisecond)); err != nil {
			return err
		}
	}
	if err := clock.Sleep(ctx, time.Second); err != nil {
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
			if err := clock.Sleep(ctx, holdFor); err != nil {
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

// gap shows the hand-overs among many waiters.
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

// clashTime is for how long a holder that has lost its lock is looked at.
const clashTime = 2 * crashLease

// clash is what a holder did that had lost its lock while another had it.
type clash struct {
	overlap time.Duration // both acted
	told    bool
}

// freeze stops a holder for twice its lease, and lets it go on while another has the lock.
func (c *column) freeze(ctx context.Context, round int) error {
	key := fmt.Sprintf("freeze-%d", round)
	holds, err := c.worker(ctx, c.uri, key)
	if err != nil {
		return err
	}
	defer holds.kill()
	frozen := func() history.Instant { return holds.signal(syscall.SIGSTOP) }
	thaw := func(since history.Instant) (history.Instant, error) {
		err := clock.Sleep(ctx, max(0, 2*crashLease-history.Now().Sub(since)))
		return holds.signal(syscall.SIGCONT), err
	}
	found, err := c.clash(ctx, holds, key, frozen, thaw)
	if err == nil {
		c.frozen = append(c.frozen, found)
	}
	return err
}

// partition cuts a holder off from the server. It stays so.
func (c *column) partition(ctx context.Context, round int) error {
	key := fmt.Sprintf("partition-%d", round)
	to, err := c.link(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	holds, err := c.worker(ctx, to.uri, key)
	if err != nil {
		return err
	}
	defer holds.kill()
	cut := func() history.Instant {
		to.cut()
		return history.Now()
	}
	found, err := c.clash(ctx, holds, key, cut, func(history.Instant) (history.Instant, error) { return 0, nil })
	if err == nil {
		c.cutOff = append(c.cutOff, found)
	}
	return err
}

// worker starts a holder that works under a lock.
func (c *column) worker(ctx context.Context, uri, key string) (*member, error) {
	m, err := c.memberAt(ctx, uri, key+"-a", crashLease)
	if err != nil {
		return nil, err
	}
	if _, err = m.do(ctx, "acquire", key); err == nil {
		_, err = m.do(ctx, "work", key)
	}
	if err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// clash disturbs a holder for which another waits. resume, called once that has the lock, returns since when the first
// is awake again. Then both are left alone for a while.
func (c *column) clash(ctx context.Context, holds *member, key string, disturb func() history.Instant,
	resume func(since history.Instant) (history.Instant, error),
) (clash, error) {
	next, err := c.member(ctx, key+"-b", crashLease)
	if err != nil {
		return clash{}, err
	}
	defer next.kill()
	acquired := next.order("acquire", key)
	if err := clock.Sleep(ctx, crashLease/2+moment(crashLease/2)); err != nil {
		return clash{}, err
	}
	since := disturb()
	taken := next.await(ctx, acquired)
	awake, err := resume(since)
	if taken.err != nil || err != nil {
		return clash{}, fmt.Errorf("the next does not get it: %w, %w", taken.err, err)
	}
	if err := clock.Sleep(ctx, clashTime); err != nil {
		return clash{}, err
	}
	acted, err := holds.do(ctx, "report", key)
	if err != nil {
		return clash{}, err
	}
	last, told := acted.begin, acted.end
	return clash{overlap: max(0, last.Sub(max(taken.end, awake))), told: told != 0}, nil
}

// clashes shows the longest overlap, and whether the loss was reported each time.
func clashes(all []clash) string {
	if len(all) == 0 {
		return none
	}
	var longest time.Duration
	told := 0
	for _, one := range all {
		longest = max(longest, one.overlap)
		if one.told {
			told++
		}
	}
	switch {
	case told == len(all) && longest == 0:
		return "0; told"
	case told == len(all) && longest < 5*time.Millisecond:
		return "some ms; told" // it acted again before the report
	case told == len(all):
		return fmt.Sprintf("%.2f s; told", longest.Seconds())
	case told == 0:
		return fmt.Sprintf("≥ %.1f s; not told", longest.Seconds())
	}
	return fmt.Sprintf("≥ %.1f s; told %d of %d times", longest.Seconds(), told, len(all))
}
