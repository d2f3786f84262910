package model_test

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// A tick is a quarter of T by a fast clock; a slow one goes 10/11 of that, as far as two clocks may differ.
const (
	fast      = 1100 * time.Millisecond
	slowClock = 1000 * time.Millisecond
	lease     = 4 * fast
)

// scenario is a cluster and the faults that it may have.
type scenario struct {
	name    string
	setting setting
	left    budget
	large   bool // more states than `go test ./...` visits; `make model` visits more, and says where it stops
}

func params(lease time.Duration) protocol.Params {
	p, err := protocol.NewParams(lease, 0)
	if err != nil {
		panic(err)
	}
	return p
}

// two replicas and one key, that A runs; A's clock is as slow as it may be, and B's fast.
func two(change ...func(*setting)) setting {
	s := setting{n: 2, keys: 1}
	for r := range maxReplicas {
		s.params[r], s.rates[r], s.caps[r] = params(lease), fast, 1
	}
	s.rates[0] = slowClock
	for _, f := range change {
		f(&s)
	}
	return s
}

func swapped(s *setting)       { s.rates[0], s.rates[1] = s.rates[1], s.rates[0] }
func clocked(s *setting)       { s.clock = true }
func calmly(s *setting)        { s.calm = true }
func valued(s *setting)        { s.values = true }
func coldly(s *setting)        { s.cold = true }
func onlyStopped(s *setting)   { s.stopped = true }
func lateCreation(s *setting)  { s.late = 1 }
func lateHeartbeat(s *setting) { s.late = 2 }
func moved(s *setting)         { s.moves = true }
func alone(s *setting)         { s.n = 1 }
func loaded(s *setting)        { s.keys, s.caps[0], s.caps[1], s.steady = 2, 2, 2, true }
func receiver(s *setting)      { s.n, s.keys = 3, 2 }

// first is the state from which a search begins: everything runs, nothing is under way.
func (sc *scenario) first() state {
	w := world{setting: &sc.setting}
	for r := range w.n {
		w.begin(r)
	}
	w.store.clock = 1
	if !w.clock {
		w.store.clock = 0
	}
	for range 4 {
		if w.cold {
			break
		}
		for {
			a, ok := w.next()
			if !ok {
				break
			}
			w.apply(a)
		}
		w.normal()
		w.apply(action{kind: tickAll})
	}
	for {
		a, ok := w.next()
		if !ok || w.cold {
			break
		}
		w.apply(a)
	}
	if w.late > 0 {
		w.lateHeartbeat()
	}
	w.left = sc.left
	if sc.left[stale] > 0 {
		w.store.staleSessions, w.store.staleLocks = w.store.sessions, w.store.locks
	}
	w.normal()
	return w.state
}

// lateHeartbeat lets one of A's first heartbeats be slow, until A waits for it no longer. A has claimed the key if it
// could, and is cut off after the second.
func (w *world) lateHeartbeat() {
	slowed := false
	for range w.late + 2 {
		w.apply(action{kind: tickAll})
		for i := w.firstPrompt(); i >= 0; i = w.firstPrompt() {
			kind := direct
			if m := &w.messages[i]; m.kind == heartbeatWrite && m.from == 0 && m.heartbeat == w.late && !slowed {
				kind, slowed = delay, true
			}
			w.apply(action{kind: kind, a: int8(i)})
			if w.replicas[0].keys[0].Phase == protocol.Free && w.mayClaim(0) {
				w.apply(action{kind: claimKey})
			}
		}
		w.normal()
	}
	if w.late > 1 {
		w.replicas[0].link = cut
	}
	for i := range w.messages {
		if m := &w.messages[i]; m.kind == heartbeatWrite && m.from == 0 && !m.expired {
			w.apply(action{kind: timeOut, a: int8(i)})
			return
		}
	}
}

// longer gives A a lease twice as long as B's.
func longer(s *setting) { s.params[0] = params(2 * lease) }

// scenarios are searched each for itself: all faults at once would leave states for none of them.
func scenarios() []scenario {
	return []scenario{
		{"messages slow, lost and doubled", two(), budget{slow: 2, lose: 1, double: 1, giveUp: 1}, true},
		{"messages slow, clocks the other way", two(swapped), budget{slow: 2, giveUp: 1}, false},
		{"writes that no store can take", two(), budget{unwritable: 2, slow: 1, giveUp: 1, advance: 1}, false},
		{"new tokens", two(), budget{slow: 1, lose: 1, advance: 1}, false},
		{"stale lists", two(), budget{stale: 2, slow: 1, giveUp: 1}, false},
		{"one cut off", two(), budget{slow: 1, cutOff: 1, giveUp: 1}, false},
		{"one cut off, clocks the other way", two(swapped), budget{slow: 1, cutOff: 1, giveUp: 1}, false},
		{"one hears no answers", two(), budget{slow: 1, deafen: 1, giveUp: 1}, false},
		{"the store unreachable", two(calmly), budget{outage: 2}, false},
		{"the store unreachable, written out of band", two(), budget{outage: 1, slow: 1, touchLock: 2}, false},
		{"workers killed", two(), budget{slow: 1, killWorker: 2, restart: 2}, false},
		{
			"workers killed, a run that no signal reaches", two(loaded),
			budget{slow: 1, killWorker: 1, immunity: 1, giveUp: 1, restart: 1},
			true,
		},
		{"guards killed", two(), budget{slow: 1, killGuard: 2, stopWorker: 1, restart: 1}, true},
		{"guard and worker killed", two(), budget{slow: 1, killBoth: 1, restart: 1, giveUp: 1}, false},
		{"workers stopped", two(), budget{slow: 1, stopWorker: 2, giveUp: 1}, true},
		{"replicas frozen", two(), budget{slow: 1, stopAll: 2, giveUp: 1}, true},
		{"machines asleep", two(), budget{slow: 1, sleep: 2, giveUp: 1}, true},
		{"sessions deleted and restored", two(), budget{dropSession: 1, bringBack: 1, cutOff: 1}, false},
		{
			"sessions deleted, leases of two lengths", two(longer),
			budget{dropSession: 1, cutOff: 1, killBoth: 1, restart: 1},
			true,
		},
		{"old sessions removed", two(), budget{slow: 1, killBoth: 1, restart: 1, removeDead: 1}, false},
		{"all start at once", two(coldly), budget{lose: 1, dropSession: 1}, false},
		{"a creation that comes late", two(coldly, lateCreation), budget{dropSession: 1, cutOff: 1}, false},
		{"a heartbeat that comes late", two(coldly, lateHeartbeat), budget{dropSession: 1, cutOff: 1}, false},
		{
			"a backup restored under running replicas", two(clocked),
			budget{backUp: 1, bringAllBack: 1, giveUp: 2, killBoth: 1, restart: 1},
			true,
		},
		{
			"a backup restored while all are stopped", two(clocked, onlyStopped),
			budget{backUp: 1, bringAllBack: 1, killBoth: 2, restart: 2},
			false,
		},
		{
			"the store's clock steps back", two(clocked),
			budget{clockBack: 1, giveUp: 1, dropLock: 1, killBoth: 1, restart: 1},
			false,
		},
		{"locks deleted", two(clocked), budget{slow: 1, giveUp: 1, dropLock: 1, dropOwned: 1}, false},
		{
			"a session written into a lock out of band", two(),
			budget{nameOwner: 2, touchLock: 1, giveUp: 1, advance: 1},
			false,
		},
		{"values, messages slow", two(valued), budget{slow: 1, giveUp: 1, getValue: 2, setValue: 1}, false},
		{
			"values, messages doubled", two(valued),
			budget{slow: 1, double: 1, giveUp: 1, getValue: 1, setValue: 2},
			false,
		},
		{"values, replicas frozen", two(valued), budget{slow: 1, stopAll: 1, getValue: 1, setValue: 1}, false},
		{"values under new tokens", two(valued), budget{slow: 1, lose: 1, advance: 1, getValue: 2, setValue: 1}, false},
		{"drains", two(), budget{slow: 2, drain: 1, restart: 1}, true},
		{"two givers, one place", two(receiver), budget{slow: 1, giveUp: 2}, false},
		{
			"three replicas, the receiver dies", two(func(s *setting) { s.n = 3 }),
			budget{slow: 1, giveUp: 1, killBoth: 1},
			false,
		},
		{"a cluster is moved while replicas start", two(moved, coldly), budget{moving: 1, slow: 1}, false},
		{
			"a cluster is moved while one starts again", two(moved),
			budget{moving: 1, killBoth: 2, restart: 1, slow: 1},
			true,
		},
		{"a cluster is moved while one is frozen", two(moved), budget{moving: 1, stopAll: 1, killBoth: 1}, false},
		{
			"a cluster is moved while one is cut off", two(moved),
			budget{moving: 1, cutOff: 1, killBoth: 1, slow: 1},
			true,
		},
		{
			"a cluster is moved, its session and the mark deleted", two(moved),
			budget{moving: 1, dropSession: 1, killBoth: 1, dropMark: 1},
			false,
		},
	}
}
