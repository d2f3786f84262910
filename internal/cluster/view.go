// Package cluster is what an elector knows of the cluster, and what a balancer asks of it: plain data. Package
// elect takes and gives it at elect.Cluster.
package cluster

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// View is a snapshot that nothing changes. It may be stale.
type View struct {
	Session  string // this process's session
	Instance string
	Open     bool // the session is acknowledged and the lease valid
	Draining bool
	Loaded   bool // members and the locks of all tracked groups have been read at least once
	// within the last hour the store showed the own session below a revision it had acknowledged
	Forgot    bool
	Stale     bool                        // own reads or heartbeats have failed for longer than T/4
	Now       int64                       // the store's clock when the view was made, Unix ms
	Ahead     time.Duration               // of this machine's wall clock over the store's; below 0: behind
	Outage    time.Duration               // time since the last outage of the store ended; negative: none yet
	Sessions  []Session                   // in order of instance and session, this process's included
	Locks     map[record.Key]*record.Lock // of the tracked groups; views share those that have not changed
	Held      map[record.Key]Held         // by this process
	Overrides []record.Override
	Looked    uint64 // the number of the newest look at all that may have changed; looks are counted from 1
}

// Lock is a key's lock as far as it is known; else one without an owner, at revision 0.
func (v *View) Lock(key record.Key) record.Lock {
	if lock := v.Locks[key]; lock != nil {
		return *lock
	}
	return record.Lock{Key: key}
}

// Session is one session in a View.
type Session struct {
	ID     string
	State  record.SessionState
	Member record.Member // zero until it has been read
	Known  bool          // Member has been read
	Age    time.Duration // since its newest heartbeat was first seen here, when the view was made
	// Remote are the keys on which HTTP endpoints may still work once the session is dead, and the milliseconds
	// left of each.
	Remote map[record.Key]int64
	Cause  string // why it is dead, for people
	Left   bool   // it is dead since it left in order
}

// Held is one key in this process.
type Held struct {
	Phase     Phase
	Releasing bool   // its release was asked for; the run may not have ended yet
	Next      string // with Releasing: the session it will be reserved for
	Look      uint64 // the newest look that had begun when it was claimed: see View.Looked
	// Status is what its run said of itself last, also what is not written yet; nil: nothing. It is not changed.
	Status *record.TaskStatus
}

// Phase is where a key stands that this process holds or claims.
type Phase = protocol.KeyPhase

// The phases, in their order.
const (
	PhaseClaiming  = protocol.Claiming  // the claim is not acknowledged yet
	PhaseWaiting   = protocol.Idle      // owned, and not running: the lease is not valid
	PhaseRunning   = protocol.Running   // its run goes on
	PhaseStopping  = protocol.Stopping  // its run was asked to end and has not
	PhaseReleasing = protocol.Releasing // its run has ended, and the release is not acknowledged yet
)

// HandOver is one key to be released on purpose.
type HandOver struct {
	Key     record.Key
	Next    string // the session it is reserved for; empty: for none
	Suspend bool   // leave it out of the sweeps
	Reason  record.Reason
	Message string // the reason for people, at most elect.MaxText bytes
}
