package reconcile

import "time"

// Policy says how eagerly keys move.
type Policy struct {
	// Settle is how long membership must have been stable before keys move for balance alone.
	Settle time.Duration
	// MaxMoves is how many hand-overs this instance has under way at once in a group; 0: no limit.
	MaxMoves int
	// RestartGrace is how long the keys of an instance that stopped in order wait for it to come back; 0: they move at
	// once.
	RestartGrace time.Duration
	// FirstQuiet is how long membership must have been stable before keys without any owner so far are claimed. So
	// replicas that start together share them out instead of the first taking all. Orphans never wait.
	FirstQuiet time.Duration
}

// Calm says how quiet a cluster has been, as seen from one replica.
type Calm struct {
	Quiet  time.Duration // how long the membership has been as it is
	Up     time.Duration // how long this replica has been deciding
	Outage time.Duration // since the last outage of the store ended; negative: none yet
}

// maxFirstWait bounds the wait for FirstQuiet: a membership that never comes to rest does not keep keys unowned.
const maxFirstWait = 3 * time.Second

// Settled reports whether keys may move for balance: membership is stable and no outage of the store is fresh.
// Otherwise it returns how long until they may.
func (p Policy) Settled(c Calm) (ok bool, in time.Duration) {
	rest := p.Settle - c.Quiet
	if c.Outage >= 0 {
		rest = max(rest, p.Settle-c.Outage)
	}
	return rest <= 0, rest
}

// maySeed reports whether keys without any owner so far may be claimed. Otherwise it returns how long until they may.
func (p Policy) maySeed(c Calm) (ok bool, in time.Duration) {
	rest := min(p.FirstQuiet-c.Quiet, maxFirstWait-c.Up)
	return rest <= 0, rest
}
