package model_test

import "github.com/shardctl/shardctl/internal/protocol"

const (
	maxReplicas = 3
	perReplica  = 2 // sessions that a replica may open, over restarts of its process too
	maxSessions = maxReplicas * perReplica
	maxKeys     = 2
	maxMessages = 8
)

// sessionDoc is a session's document; rev 0: absent.
type sessionDoc struct {
	rev, heartbeat int64
	state          protocol.State
	writer         int8 // who wrote it last: a session, or a killer
}

func (d sessionDoc) alive() bool {
	return d.rev > 0 && (d.state == protocol.Live || d.state == protocol.Draining)
}

// lockDoc is a lock; rev 0: absent.
type lockDoc struct {
	rev, token int64
	session    int8           // 0: none
	writer     int8           // who wrote it last,
	wrote      protocol.KeyOp // and what: together they stand for the number that production gives each write
}

// valueDoc is the document of the first key's value; rev 0: absent.
type valueDoc struct {
	rev, token int64 // token is of who has read or set it last,
	set        int8  // and with what: the number of the set; 0: by a read, which writes back what it read
}

// store is the database: what is there, and what a stale read may still show.
type store struct {
	sessions, staleSessions [maxSessions]sessionDoc
	locks, staleLocks       [maxKeys]lockDoc
	value                   valueDoc
	removed                 sessionDoc // deleted out of band, may be restored
	removedID               int8

	marked bool // it says that the cluster is moved to another store

	clock int64 // as its replies show it
	high  int64 // the high-water mark: the largest revision that an increment of the group's counter has carried

	backup         bool
	backupSessions [maxSessions]sessionDoc
	backupLocks    [maxKeys]lockDoc
	backupHigh     int64
}

// task is one run of a key, with all its processes.
type task struct {
	on       bool
	stopping bool // it was asked to end, in whichever way
	immune   bool // no signal reaches it, as where it runs as another user: it ends when it likes
	token    int64
	session  int8
}

// How a replica may be cut off from the store.
const (
	linked uint8 = iota
	cut          // nothing arrives
	deaf         // requests arrive, answers do not
)

// How a whole replica may stand still, guard, worker and tasks.
const (
	awake  uint8 = iota
	frozen       // stopped, as by SIGSTOP: clocks run on
	asleep       // the machine sleeps: CLOCK_MONOTONIC stands as well
)

// replica is a worker with its machines, its guard, and the tasks.
type replica struct {
	alive  bool // the worker
	still  bool // the worker alone is stopped
	guard  bool
	rest   uint8 // awake, frozen, asleep
	link   uint8
	drain  bool
	opened int8 // sessions opened so far

	clock     int64 // the largest that a reply has shown
	miscounts int8  // how often in a row the count of its locks was wrong, after a backup was restored
	session   int8
	passed    int8 // the session that has read that the store is not marked
	m         protocol.Session
	wasValid  bool
	peers     [maxSessions]protocol.Peer
	keys      [maxKeys]protocol.Key
	// since when a lock is known that names the session by another's write
	met                     [maxKeys]protocol.Instant
	lastLook, lastHeartbeat protocol.Instant
	looking                 bool
	inPlace                 int8 // the session of the predecessor in the same container, not known to be dead yet

	tasks    [maxKeys][2]task // the second: should a key ever run twice in one replica
	returned [maxKeys]bool    // its run has ended, and the worker does not know yet

	// of its newest run of the first key. It outlives the run: what a run has left behind may use it still
	value   protocol.Value
	setting int8 // the number of the set that it wants

	guarded protocol.Instant // the guard: when the last acknowledged heartbeat was sent
	knows   bool             // the guard knows a deadline
	marks   [perReplica]bool // the guard: sessions to be marked dead when the worker is gone
}

type messageKind uint8

const (
	noMessage messageKind = iota
	killWrite
	markWrite // a guard's
	freeWrite // a guard's
	keyWrite
	heartbeatWrite
	keepWrite // a guard's
	keyRead
	moveRead // of the store's mark, before the first write of a lock, whose fields it has
	increment
	ownRead
	peerRead
	lookRead
	repairWrite
	valueWrite
	valueRead
)

// byGuard says whether guards send such messages.
func (k messageKind) byGuard() bool { return k == markWrite || k == freeWrite || k == keepWrite }

// message is a request on its way, or its answer.
type message struct {
	kind    messageKind
	prompt  bool // not yet delayed: nothing else happens before it
	landed  bool // it has reached the store: this is the answer
	expired bool // its sender knows that it timed out, or is gone
	overdue bool // it was abandoned, and a later call under its token has returned: it must not land any more
	marked  bool // what a read of the mark has found
	age     int8 // ticks since it was sent

	from, session, key int8
	op                 protocol.KeyOp
	state              protocol.State
	status             protocol.Status
	ifRev, newRev      int64
	heartbeat          int64
	docs               [maxSessions]sessionDoc
	lock               lockDoc
	value              valueDoc
	now, high          int64 // of the store, when it answered
}

// ghost is what only the checker knows.
type ghost struct {
	token [maxKeys]int64 // the highest that ran
	// a hand took the lock from under its owner, which may cause two runs: not held against anybody
	outOfBand [maxKeys]bool
	edited    [maxKeys]bool // a hand wrote the lock
	named     bool          // a hand wrote a session into some lock

	valueToken int64 // the largest whose first read or set of the value has returned
	sets       int8  // of the value so far
	kept       uint8 // which of them have landed, a bit each

	restored int8 // 1: a backup was restored under running replicas; one more for each quarter of T since, up to 3
}

// fault is something that may happen only so often.
type fault uint8

const (
	slow         fault = iota // a message is overtaken by others
	lose                      // a message is lost
	double                    // a message lands twice
	unwritable                // a write is one that the store can never take
	stale                     // a list shows what was
	cutOff                    // a replica cannot reach the store
	deafen                    // a replica hears no answers
	outage                    // the store is unreachable for all
	killWorker                // kill -9
	killGuard                 //
	killBoth                  //
	immunity                  // of a run against signals
	stopWorker                // SIGSTOP
	stopAll                   // SIGSTOP of everything in a replica
	sleep                     // of a machine
	restart                   // of a replica's process, in order or after a death
	giveUp                    // of a key, for another replica
	drain                     // of a replica
	advance                   // a new token for a new start
	getValue                  // a run reads its value
	setValue                  // a run sets it
	dropSession               // out of band
	bringBack                 // of a session dropped, out of band
	dropLock                  // out of band, of a key without an owner
	dropOwned                 // out of band, of a key that is owned
	touchLock                 // out of band: written again as it is
	nameOwner                 // out of band: a session is written into a lock
	removeDead                // of a dead session's document
	backUp                    // a backup is taken
	bringAllBack              // it is restored, all of it
	clockBack                 // the store's clock steps back by T
	// another replica takes itself for the successor of one that lives (never allowed: a weakening's)
	impostor
	moving   // the cluster is moved to another store
	dropMark // out of band, before the other store is open
	faults
)

type budget [faults]int8

type state struct {
	store       store
	replicas    [maxReplicas]replica
	messages    [maxMessages]message
	left        budget
	ghost       ghost
	mover       mover
	unreachable bool // the store, for everybody
}

// owner is whose a session is.
func owner(session int8) int { return int(session-1) / perReplica }

func (s *state) running(r int) int {
	n := 0
	for k := range s.replicas[r].tasks {
		for _, t := range s.replicas[r].tasks[k] {
			if t.on {
				n++
			}
		}
	}
	return n
}

func (s *state) held(r int) int {
	n := 0
	for _, k := range s.replicas[r].keys {
		if k.Phase != protocol.Free {
			n++
		}
	}
	return n
}

// works says whether a replica's worker does anything now.
func (r *replica) works() bool { return r.alive && !r.still && r.rest == awake }

// guards says whether a replica's guard does.
func (r *replica) guards() bool { return r.guard && r.rest == awake }
