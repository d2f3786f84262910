//go:build linux

package peers

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

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
		err := lab.Pause(ctx, max(0, 2*crashLease-history.Now().Sub(since)))
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
	if err := lab.Pause(ctx, crashLease/2+moment(crashLease/2)); err != nil {
		return clash{}, err
	}
	since := disturb()
	taken := next.await(ctx, acquired)
	awake, err := resume(since)
	if taken.err != nil || err != nil {
		return clash{}, fmt.Errorf("the next does not get it: %w, %w", taken.err, err)
	}
	if err := lab.Pause(ctx, clashTime); err != nil {
		return clash{}, err
	}
	acted, err := holds.do(ctx, "report", key)
	if err != nil {
		return clash{}, err
	}
	last, told := acted.begin, acted.end
	return clash{overlap: max(0, last.Sub(max(taken.end, awake))), told: told != 0}, nil
}

// clashes shows the longest overlap, and whether the holder was told each time.
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
		return "some ms; told" // it acted again before it was told
	case told == len(all):
		return fmt.Sprintf("%.2f s; told", longest.Seconds())
	case told == 0:
		return fmt.Sprintf("≥ %.1f s; not told", longest.Seconds())
	}
	return fmt.Sprintf("≥ %.1f s; told %d of %d times", longest.Seconds(), told, len(all))
}
