package redis

import (
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// course is what a client knows of the server it talks to. Its methods may be called concurrently.
type course struct {
	mu       sync.Mutex
	identity string    // under which scripts are to run; empty: not known
	since    time.Time // arrival of the first good reply under it; zero: there was none
	good     string    // the lineage of the last good reply
	high     int64     // the largest revision seen or written, in any lineage
}

// lineage is an identity without the number of synchronizations.
func lineage(identity string) string {
	if at := strings.LastIndexByte(identity, '/'); at >= 0 {
		return identity[:at]
	}
	return ""
}

func (c *course) expected() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// saw takes note of an identity that some reply has shown; empty: of none. Which of two is newer cannot be known, so
// any other begins again.
func (c *course) saw(identity string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identity != c.identity {
		c.identity, c.since = identity, time.Time{}
	}
}

// arrived takes note of a good reply. False: another identity was seen meanwhile, so that the reply counts for nothing.
func (c *course) arrived(identity string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identity != c.identity {
		return false
	}
	if c.since.IsZero() {
		c.since = now
	}
	c.good = lineage(identity)
	return true
}

// proven is the lineage of the last good reply.
func (c *course) proven() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good
}

// age is for how long good replies have come under this identity, from the arrival of the first.
func (c *course) age(identity string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identity != c.identity || c.since.IsZero() {
		return 0
	}
	return now.Sub(c.since)
}

// rise keeps the largest revision, and returns it. Those beyond [store.MaxMark] were written out of band.
func (c *course) rise(revs ...int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rev := range revs {
		if rev > c.high && rev <= store.MaxMark {
			c.high = rev
		}
	}
	return c.high
}
