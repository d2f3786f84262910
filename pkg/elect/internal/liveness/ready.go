package liveness

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// Ready is what is to be done. Its zero value asks for nothing.
type Ready struct {
	Look    *Look
	Reads   []string // sessions to be read, linearizably: the answers go to Peers.Found
	Kills   []Kill
	Died    []Death
	Met     []string      // sessions that are known now, and not known to be dead
	Over    []string      // predecessors that are known to be dead
	Outage  time.Duration // an outage of the store of this length has just ended; 0: none
	Skewed  []int64       // by how many ms the clocks of others were behind when heartbeats of them were first seen
	New     bool          // a session was met for the first time
	Changed bool          // something of the view
}

// Look asks for a list of the live and draining sessions. The answer goes to Peers.Looked.
type Look struct {
	All   bool   // all of them; else those that follow From in the order of names, wrapping
	From  string // the own session
	Count int
}

// Kill asks for a session to be marked dead.
type Kill struct {
	Session  string
	Instance string
	Cause    string
	Change   store.Change
	First    bool // it is not a repeat
}

// Death is a session that is known to be dead now.
type Death struct {
	Session  string
	Instance string
	Cause    string
	Own      bool // this process marked it dead
}

// sorted is what is to be done in the order of sessions: the same events have the same effects.
func (r Ready) sorted() Ready {
	slices.Sort(r.Reads)
	slices.Sort(r.Met)
	slices.Sort(r.Over)
	slices.SortStableFunc(r.Kills, func(a, b Kill) int { return cmp.Compare(a.Session, b.Session) })
	slices.SortStableFunc(r.Died, func(a, b Death) int { return cmp.Compare(a.Session, b.Session) })
	return r
}

// Empty says whether there is nothing to do.
func (r Ready) Empty() bool {
	return r.Look == nil && len(r.Reads) == 0 && len(r.Kills) == 0 && len(r.Died) == 0 && len(r.Met) == 0 &&
		len(r.Over) == 0 && r.Outage == 0 && len(r.Skewed) == 0 && !r.New && !r.Changed
}
