package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Lease is T of a chaos test.
const Lease = 4 * time.Second

// Slots are where replicas run. The first Base of them are always to be filled; the others come and go.
const (
	Slots = 7
	Base  = 5
)

// Tasks of a chaos test: commands numbered from 1, of which the last ones come and go with the task list.
const (
	AlwaysTasks = 30
	ExtraTasks  = 6
)

// Kind is what a fault does.
type Kind string

// Faults of processes.
const (
	KillWorker        Kind = "kill -9 worker"
	KillGuard         Kind = "kill -9 guard"
	KillBoth          Kind = "kill -9 guard and worker"
	Terminate         Kind = "SIGTERM"
	KillDraining      Kind = "SIGTERM, then kill -9 worker"
	StopWorker        Kind = "SIGSTOP worker"
	StopGuard         Kind = "SIGSTOP guard"
	Freeze            Kind = "SIGSTOP guard, worker and tasks"
	KillApplication   Kind = "kill -9 application"
	FreezeApplication Kind = "SIGSTOP application"
	Join              Kind = "new replica"
	Leave             Kind = "replica leaves"
	MassKill          Kind = "kill -9 of all guards and workers"
	MassTerminate     Kind = "SIGTERM to all"
	MassWorkers       Kind = "kill -9 of all workers"
)

// Faults of configuration and documents.
const (
	ChangeLists    Kind = "task list changed"
	DeleteSession  Kind = "session deleted"
	RaiseSession   Kind = "session's rev raised manually"
	DeleteMember   Kind = "member deleted"
	ResetGroup     Kind = "group's counter reset"
	DeleteGroup    Kind = "group deleted"
	DeleteLock     Kind = "lock deleted under its owner"
	DeleteFreeLock Kind = "all locks without owner deleted"
)

// Faults of MongoDB.
const (
	StepDown     Kind = "primary steps down"
	KillNode     Kind = "kill -9 of a node"
	KillPrimary  Kind = "kill -9 of the primary"
	StopNode     Kind = "SIGSTOP of a node"
	StopPrimary  Kind = "SIGSTOP of the primary"
	AllStopped   Kind = "all nodes stopped"
	AllKilled    Kind = "all nodes killed"
	Closed       Kind = "connections closed at random"
	Blocked      Kind = "commands blocked at random"
	ConcernFails Kind = "write concern errors at random"
	NotPrimary   Kind = "NotWritablePrimary at random"
	LostAnswers  Kind = "answers of writes lost at random"
)

// Faults of SQLite.
const (
	WriteLocked Kind = "write lock held by another"
	LockedOften Kind = "write lock held on and off"
)

// Fault is one line of a schedule.
type Fault struct {
	At   time.Duration // since the chaos test began
	Kind Kind
	For  time.Duration // until it ends; 0 for what happens in a moment
	Slot int           // of a replica, where the kind hits one
	Pick uint64        // chooses among what is there: a node, a document, an order
	List int           // of ChangeLists: how many extra tasks there are from now on
}

func (f Fault) String() string {
	s := string(f.Kind)
	if reach[f.Kind] == oneReplica {
		s += fmt.Sprintf(", r%d", f.Slot+1)
	}
	if f.Kind == ChangeLists {
		s += fmt.Sprintf(", %d extra tasks", f.List)
	}
	if f.For > 0 {
		s += fmt.Sprintf(", for %.2f T", f.For.Seconds()/Lease.Seconds())
	}
	return s
}

// scope is what a fault has to itself while it lasts. Faults of different scopes meet as they like; two of one do not.
// Only that way is it known what is promised. A worker killed while its guard is stopped, say, is a replica killed
// whole.
type scope int

const (
	oneReplica  scope = iota // its slot
	allReplicas              // every slot
	theStore                 // the store
	documents                // nothing: a moment
	everything               // all slots and the store
)

var reach = map[Kind]scope{
	KillWorker: oneReplica, KillGuard: oneReplica, KillBoth: oneReplica, Terminate: oneReplica,
	KillDraining: oneReplica, KillApplication: oneReplica, FreezeApplication: oneReplica,
	StopWorker: oneReplica, StopGuard: oneReplica, Freeze: oneReplica, Join: oneReplica, Leave: oneReplica,
	MassKill: allReplicas, MassTerminate: allReplicas, MassWorkers: allReplicas,
	ChangeLists: documents, DeleteSession: documents, RaiseSession: documents, DeleteMember: documents,
	ResetGroup:  documents,
	DeleteGroup: documents, DeleteLock: everything, DeleteFreeLock: documents,
	StepDown: theStore, KillNode: theStore, KillPrimary: theStore, StopNode: theStore, StopPrimary: theStore,
	AllStopped: theStore,
	AllKilled:  theStore, Closed: theStore, Blocked: theStore, ConcernFails: theStore, NotPrimary: theStore,
	LostAnswers: theStore,
	WriteLocked: theStore, LockedOften: theStore,
}

// deck is how often each kind comes in one round of a store's chaos test.
func deck(store string) []Kind {
	cards := []Kind{
		KillWorker, KillWorker, KillGuard, KillGuard, KillBoth, KillBoth, Terminate, Terminate, KillDraining,
		StopWorker, StopWorker, StopGuard, StopGuard, Freeze, Freeze, KillApplication,
		FreezeApplication, FreezeApplication, Join, Leave, MassKill, MassTerminate, MassWorkers,
		ChangeLists, ChangeLists, DeleteSession, RaiseSession, DeleteMember, ResetGroup, DeleteGroup, DeleteLock,
		DeleteFreeLock,
	}
	if store == MongoDB {
		return append(cards, StepDown, StepDown, KillNode, KillPrimary, StopNode, StopPrimary, AllStopped, AllStopped,
			AllKilled,
			Closed, Blocked, ConcernFails, NotPrimary, LostAnswers)
	}
	return append(cards, WriteLocked, LockedOften)
}

// The stores.
const (
	MongoDB = "mongodb"
	SQLite  = "sqlite"
)

// Pauses between two faults, and how long what was hit is left alone afterwards.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 1800 * time.Millisecond
	rest          = Lease / 2
	// an outage costs all leases; chaos tests that never let them come back would show little
	storeRest  = Lease * 3 / 2
	firstFault = Lease / 4
	// mostHit is how many replicas suffer at once, faults of all apart: somebody must be there to take over, or nothing
	// can overlap.
	mostHit = 2
)

// Schedule is the chaos test of a seed: faults in order of time, all of which end within length.
func Schedule(store string, seed uint64, length time.Duration) []Fault {
	s := scheduler{rng: rand.New(rand.NewPCG(seed, uint64(len(store)))), store: store, length: length}
	for now := firstFault; now < length; now += s.between(shortestPause, longestPause) {
		s.place(now)
	}
	return s.faults
}

// scheduler draws cards. It knows until when what was hit is busy, as far as that is known beforehand.
type scheduler struct {
	rng    *rand.Rand
	store  string
	length time.Duration
	faults []Fault
	left   []Kind // of the deck

	busy   [Slots]time.Duration // until when
	filled [Slots - Base]bool   // extra slots
	outage time.Duration        // until when the store is busy
}

// place draws the first card that fits now; with none it lets the moment pass.
func (s *scheduler) place(now time.Duration) {
	if len(s.left) == 0 {
		s.left = deck(s.store)
		s.rng.Shuffle(len(s.left), func(i, j int) { s.left[i], s.left[j] = s.left[j], s.left[i] })
	}
	for i, kind := range s.left {
		f := Fault{At: now, Kind: kind, Pick: s.rng.Uint64()}
		f.For = s.lasts(kind)
		if f.At+f.For > s.length || !s.fits(&f) {
			continue
		}
		s.left = slices.Delete(s.left, i, i+1)
		s.faults = append(s.faults, f)
		return
	}
}

// fits says whether what a fault hits is free, and takes it.
func (s *scheduler) fits(f *Fault) bool {
	until := f.At + f.For + rest
	switch reach[f.Kind] {
	case oneReplica:
		return s.takeSlot(f, until)
	case allReplicas:
		return s.takeAll(f.At, until)
	case theStore:
		return s.takeStore(f.At, f.At+f.For+storeRest)
	case everything:
		if f.At < s.outage {
			return false
		}
		return s.takeAll(f.At, until+Lease/2) && s.takeStore(f.At, until+Lease/2)
	case documents:
		f.List = int(f.Pick % (ExtraTasks + 1))
	}
	return true
}

func (s *scheduler) takeSlot(f *Fault, until time.Duration) bool {
	var free []int
	hit := 0
	for slot := range Slots {
		extra := slot >= Base
		there := !extra || s.filled[slot-Base]
		switch {
		case f.At < s.busy[slot]:
			hit++
		case f.Kind == Join && there, f.Kind == Leave && (!extra || !there), f.Kind != Join && !there:
		default:
			free = append(free, slot)
		}
	}
	if len(free) == 0 || hit >= mostHit {
		return false
	}
	f.Slot = free[f.Pick%uint64(len(free))]
	if f.Kind == Join || f.Kind == Leave {
		s.filled[f.Slot-Base] = f.Kind == Join
	}
	s.busy[f.Slot] = until
	return true
}

func (s *scheduler) takeAll(at, until time.Duration) bool {
	for _, busy := range s.busy {
		if at < busy {
			return false
		}
	}
	for slot := range s.busy {
		s.busy[slot] = until
	}
	return true
}

func (s *scheduler) takeStore(at, until time.Duration) bool {
	if at < s.outage {
		return false
	}
	s.outage = until
	return true
}

// lasts draws how long a fault lasts.
func (s *scheduler) lasts(kind Kind) time.Duration {
	switch kind {
	case StopWorker, StopGuard, Freeze, FreezeApplication:
		return s.between(Lease/5, Lease*5/2)
	case KillNode, KillPrimary, StopNode, StopPrimary, Closed, ConcernFails, NotPrimary, LostAnswers, Blocked,
		LockedOften:
		return s.between(Lease/4, Lease*3/2)
	case AllStopped, AllKilled, WriteLocked:
		if s.rng.IntN(2) == 0 {
			return s.between(Lease/5, Lease*9/10)
		}
		return s.between(Lease*11/10, Lease*2)
	case KillDraining:
		return s.between(20*time.Millisecond, 500*time.Millisecond)
	default:
		return 0
	}
}

func (s *scheduler) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(s.rng.Int64N(int64(most-least)))).Round(time.Millisecond)
}
