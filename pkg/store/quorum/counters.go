package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// serverClock is the time of the servers. Its method may be called concurrently.
type serverClock struct {
	mu   sync.Mutex
	last ballot.Clock
}

// now takes the times of servers and says what time it is.
func (c *serverClock) now(times []int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Now(times...)
}

// counters are those of all groups, each the sum of what the servers count. Its methods may be called concurrently.
type counters struct {
	members *members
	mu      sync.Mutex
	all     map[string]*ballot.Counter
}

// add has each server count for itself. An increment is applied when a majority has counted it, so its counter rises
// by as many as did. of are the indexes of the increments among changes.
func (c *counters) add(ctx context.Context, changes []driver.Change, of []int, outs []driver.Outcome) {
	own := make([]driver.Change, len(of))
	for j, i := range of {
		own[j] = driver.Change{Op: driver.Increment, Doc: changes[i].Doc}
		own[j].Doc.ID, own[j].Doc.Body = counterID(changes[i].Doc.ID), nil
	}
	answers := ask(ctx, c.members, func(ctx context.Context, at *server) ([]driver.Outcome, error) {
		client, _, err := at.serving()
		if err != nil {
			return nil, err
		}
		outs, err := client.Apply(ctx, own...)
		if err == nil { // an empty disk counts as well
			_, err = at.look(ctx, driver.KindGroup, nil)
		}
		return outs, err
	})
	acknowledged := make([]int, len(of))
	var refused []error
	need := c.members.majority()
	err := gather(ctx, answers, nil, func(got answerOf[[]driver.Outcome]) bool {
		if got.err != nil {
			return false
		}
		for j, out := range got.value {
			if out.Status == driver.Applied {
				acknowledged[j]++
			} else {
				refused = append(refused, fmt.Errorf("server %d: %w", got.server+1, join(out.Err, errNotCounted)))
			}
		}
		return slices.Min(acknowledged) >= need
	})
	err = join(append(refused, err)...)
	for j, i := range of {
		outs[i] = driver.Outcome{Status: driver.Applied}
		if acknowledged[j] < need {
			outs[i] = driver.AllUnknown(1, err)[0]
		}
	}
}

var errNotCounted = errors.New("not counted")

// shown takes what a server shows of a counter.
func (c *counters) shown(group string, server int, n ballot.Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[group] == nil {
		c.all[group] = &ballot.Counter{}
	}
	c.all[group].Shown(server, n)
}

// with adds the counter of a group to its document; nil: there is neither.
func (c *counters) with(group string, d *driver.Doc) *driver.Doc {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[group] == nil {
		return d
	}
	n := c.all[group].Sum()
	sum := driver.Doc{Kind: driver.KindGroup, ID: group}
	if d != nil {
		sum = *d
	}
	sum.Count += n.Count
	sum.Rev = max(sum.Rev+n.Count, n.Rev)
	sum.WriterID = driver.WriterID{}
	return &sum
}
