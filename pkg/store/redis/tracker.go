package redis

import (
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// tracker is what a client knows of the server it talks to. Its methods may be called concurrently.
type tracker struct {
	mu       sync.Mutex
	identity string        // under which scripts are to run; empty: not known
	since    time.Time     // arrival of the good reply from which its time counts; zero: there was none
	waited   time.Duration // for which good replies had come by then: to others, as the gate kept it
	good     string        // the lineage of the last good reply
	high     int64         // the largest revision seen or written, in any lineage
}

// lineage is an identity without the number of synchronizations.
func lineage(identity string) string {
	if at := strings.LastIndexByte(identity, '/'); at >= 0 {
		return identity[:at]
	}
	return ""
}

func (c *tracker) expected() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// saw takes note of an identity that some reply has shown; empty: of none. Which of two is newer cannot be known, so
// any other begins again.
func (c *tracker) saw(identity string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identity != c.identity {
		c.identity, c.since, c.waited = identity, time.Time{}, 0
	}
}

// arrived takes note of a good reply, which shows for how long such have come, to others as well. False: another
// identity was seen meanwhile, so that the reply counts for nothing.
func (c *tracker) arrived(identity string, waited time.Duration, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identity != c.identity {
		return false
	}
	if c.since.IsZero() || waited > c.waited+now.Sub(c.since) {
		c.since, c.waited = now, waited
	}
	c.good = lineage(identity)
	return true
}

// proven is the lineage of the last good reply.
func (c *tracker) proven() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good
}

// age is for how long good replies have come under this identity, from the arrival of the first: to this client, and
// to others before it as far as it has read that. Those who wait at the same time do not add up.
func (c *tracker) age(identity string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identity != c.identity || c.since.IsZero() {
		return 0
	}
	return c.waited + now.Sub(c.since)
}

// rise keeps the largest revision, and returns it. Those beyond [driver.MaxMark] were written out of band.
func (c *tracker) rise(revs ...int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rev := range revs {
		if rev > c.high && rev <= driver.MaxMark {
			c.high = rev
		}
	}
	return c.high
}
