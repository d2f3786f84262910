package model_test

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// A tick is a quarter of T by a fast clock; a slow one goes 10/11 of that, as far as two clocks may differ.
const (
	fast      = 1100 * time.Millisecond
	slowClock = 1000 * time.Millisecond
	lease     = 4 * fast
)

// scenario is a cluster and the faults that may befall it.
type scenario struct {
	name    string
	setting setting
	left    budget
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

func swapped(s *setting)  { s.rates[0], s.rates[1] = s.rates[1], s.rates[0] }
func clocked(s *setting)  { s.clock = true }
func calmly(s *setting)   { s.calm = true }
func receiver(s *setting) { s.n, s.keys = 3, 2 }

// first is the state from which a search begins: everything runs, nothing is under way.
func (sc *scenario) first() state {
	w := world{setting: &sc.setting}
	for r := range w.n {
		w.begin(r)
	}
	for range 4 {
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
		if !ok {
			break
		}
		w.apply(a)
	}
	w.left = sc.left
	if sc.left[stale] > 0 {
		w.store.staleSessions, w.store.staleLocks = w.store.sessions, w.store.locks
	}
	w.normal()
	return w.state
}

// longer gives A a lease twice as long as B's.
func longer(s *setting) { s.params[0] = params(2 * lease) }

// scenarios are searched each for itself: all faults at once would leave room for none of them.
func scenarios() []scenario {
	return []scenario{
		{"messages slow, lost and doubled", two(), budget{slow: 2, lose: 1, double: 1, giveUp: 1}},
		{"messages slow, clocks the other way", two(swapped), budget{slow: 2, giveUp: 1}},
		{"new tokens", two(), budget{slow: 1, lose: 1, advance: 1}},
		{"stale lists", two(), budget{stale: 2, slow: 1, giveUp: 1}},
		{"one cut off", two(), budget{slow: 1, cutOff: 1, giveUp: 1}},
		{"one cut off, clocks the other way", two(swapped), budget{slow: 1, cutOff: 1, giveUp: 1}},
		{"one hears no answers", two(), budget{slow: 1, deafen: 1, giveUp: 1}},
		{"the store away", two(calmly), budget{outage: 2}},
		{"the store away, written by hand", two(), budget{outage: 1, slow: 1, touchLock: 2}},
		{"workers killed", two(), budget{slow: 1, killWorker: 2, restart: 2}},
		{"guards killed", two(), budget{slow: 1, killGuard: 2, stopWorker: 1, restart: 1}},
		{"guard and worker killed", two(), budget{slow: 1, killBoth: 1, restart: 1, giveUp: 1}},
		{"workers stopped", two(), budget{slow: 1, stopWorker: 2, giveUp: 1}},
		{"replicas frozen", two(), budget{slow: 1, stopAll: 2, giveUp: 1}},
		{"machines asleep", two(), budget{slow: 1, sleep: 2, giveUp: 1}},
		{"sessions deleted and restored", two(), budget{dropSession: 1, bringBack: 1, cutOff: 1}},
		{"sessions deleted, leases of two lengths", two(longer), budget{dropSession: 1, cutOff: 1, killBoth: 1, restart: 1}},
		{"old sessions removed", two(), budget{slow: 1, killBoth: 1, restart: 1, removeDead: 1}},
		{"locks deleted", two(clocked), budget{slow: 1, giveUp: 1, dropLock: 1, dropOwned: 1}},
		{"drains", two(), budget{slow: 2, drain: 1, restart: 1}},
		{"two givers, one place", two(receiver), budget{slow: 1, giveUp: 2}},
		{"three replicas, the receiver dies", two(func(s *setting) { s.n = 3 }), budget{slow: 1, giveUp: 1, killBoth: 1}},
	}
}
