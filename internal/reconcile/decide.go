package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Snapshot is what a replica decides from once it has a plan: its own part of it.
type Snapshot struct {
	Session  string // of this replica
	Draining bool   // it stops, and releases everything
	Policy   Policy
	Calm     Calm
	Wave     Wave // of the last Decision
	// Keys are those that the replica holds or shall own, each once, in any order. Held ones that shall stay may be
	// left out, unless it drains.
	Keys []KeyState
}

// Hold is what a replica has of a key.
type Hold uint8

// What a replica may have of a key.
const (
	NotHeld   Hold = iota
	Starting       // claimed, or between two runs
	Running        // it runs
	Releasing      // it is being released or handed over already
)

// KeyState is one key in a Snapshot.
type KeyState struct {
	Key     elect.Key
	Planned string // session that shall own it; empty: none
	Hold    Hold
	Taken   bool // another session owns it that is not known to be dead: what it owns it releases by itself
	Fresh   bool // no session has ever owned it
	Suspend bool // paused or done: once released, it is left out of the sweeps
	Removed bool // held, and no longer declared
	Why     Why  // of its hand-over to where it shall be
}

// Decision is what a replica does.
type Decision struct {
	Claim   []elect.Key        // in the order of Snapshot.Keys
	Release []cluster.HandOver // in order of keys
	Wave    Wave               // for the next Snapshot
	// Again is when to decide again although nothing changed; 0: not at all.
	Again time.Duration
}

// Decide picks what one replica claims, releases and hands over. It is pure: it reads no clock and keeps nothing.
func Decide(s Snapshot, now time.Time) Decision {
	d := Decision{Wave: s.Wave}
	if s.Draining {
		d.Release = s.drain()
	} else {
		s.act(&d)
	}
	slices.SortFunc(d.Release, func(a, b cluster.HandOver) int { return cmp.Compare(a.Key, b.Key) })
	if s.Draining {
		d.Wave, d.Release, d.Again = s.Wave.pace(d.Release, now)
	}
	return d
}

// drain releases everything, each key to the session that the plan gives it to.
func (s *Snapshot) drain() []cluster.HandOver {
	var all []cluster.HandOver
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.Hold == NotHeld || k.Hold == Releasing {
			continue
		}
		handOver := cluster.HandOver{
			Key: k.Key, Next: k.Planned, Reason: record.ReasonShutdown, Message: k.Why.Message,
		}
		if k.Why.Reason == record.ReasonUpgrade {
			handOver.Reason = k.Why.Reason
		}
		if s.Policy.RestartGrace > 0 || handOver.Next == s.Session {
			handOver.Next, handOver.Reason = "", record.ReasonShutdown
		}
		all = append(all, handOver)
	}
	return all
}

// act picks what to claim, and what to release because the plan wants it elsewhere.
func (s *Snapshot) act(d *Decision) {
	under := s.underWay()
	seed, seedIn := s.Policy.maySeed(s.Calm)
	for i := range s.Keys {
		k := &s.Keys[i]
		switch {
		case k.Hold == Releasing:
		case k.Removed:
			d.Release = append(d.Release, cluster.HandOver{
				Key: k.Key, Suspend: true, Reason: record.ReasonRemoved, Message: k.Why.Message,
			})
		case k.Hold == Running && k.Planned != s.Session:
			group := k.Key.Group()
			if s.Policy.MaxMoves > 0 && under[group] >= s.Policy.MaxMoves && !k.Suspend {
				continue
			}
			under[group]++
			away := cluster.HandOver{
				Key: k.Key, Next: k.Planned, Suspend: k.Suspend, Reason: k.Why.Reason, Message: k.Why.Message,
			}
			d.Release = append(d.Release, away)
		case k.Hold != NotHeld || k.Planned != s.Session || k.Taken:
		case k.Fresh && !seed:
			d.Again = sooner(d.Again, seedIn)
		default:
			d.Claim = append(d.Claim, k.Key)
		}
	}
	if ok, in := s.Policy.Settled(s.Calm); !ok {
		d.Again = sooner(d.Again, in)
	}
}

// underWay counts the hand-overs by group that have begun.
func (s *Snapshot) underWay() map[string]int {
	under := map[string]int{}
	for i := range s.Keys {
		if s.Keys[i].Hold == Releasing {
			under[s.Keys[i].Key.Group()]++
		}
	}
	return under
}

// sooner is the smaller of two waits, 0 meaning none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return max(b, time.Millisecond)
	}
	return a
}

// Wave is how far a drain has come. The zero Wave is a drain that has not begun.
type Wave struct {
	Size int       // keys released at once
	At   time.Time // when the last of them were
}

const (
	wavePause = 60 * time.Millisecond
	waveLeast = 4
	waves     = 10
)

// pace spreads a drain over a moment: four keys at once, or a tenth of all, each 60 ms. It does not wait for those
// before to end. All at once they would wait for each other on their way through the store, and each for longer.
func (w Wave) pace(all []cluster.HandOver, now time.Time) (Wave, []cluster.HandOver, time.Duration) {
	if len(all) == 0 {
		return w, nil, 0
	}
	if w.Size == 0 {
		w.Size = max(waveLeast, (len(all)+waves-1)/waves)
	}
	if rest := wavePause - now.Sub(w.At); rest > 0 {
		return w, nil, rest
	}
	w.At = now
	if len(all) > w.Size {
		return w, all[:w.Size], wavePause
	}
	return w, all, 0
}
