package protocol_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/protocol"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// Each property drives one machine with random events against a tiny document in a store. The network may lose a
// request, lose an answer, or deliver a request late; a hand may write the document in between.

func TestPropertySession(t *testing.T) {
	p := params(t)
	rapid.Check(t, func(t *rapid.T) {
		type doc struct {
			rev, heartbeat int64
			state          protocol.State
			mine           bool
		}
		var (
			s        protocol.Session
			store    doc // rev 0: absent
			now      time.Duration
			sent     *protocol.SessionAction // the write that waits for its answer
			sentAt   = map[int64]time.Duration{}
			late     []protocol.SessionAction
			reading  bool
			running  = true // tasks
			last     protocol.SessionAction
			pending  bool // last is unanswered: the next write must be the same
			reported = map[protocol.SessionActionKind]bool{}
			clock    = int64(1)
			foreign  bool // somebody else has ended it, or a hand has written
		)
		apply := func(w protocol.SessionAction) protocol.Status {
			state := w.State
			if store.mine && store.rev == w.NewRev && store.heartbeat == w.Heartbeat && store.state == state {
				return protocol.Applied // its own write, known by the writer ID
			}
			if store.rev != w.IfRev {
				return protocol.Refused
			}
			if alive := state != protocol.Dead; w.NewRev <= w.IfRev || alive != (w.NewRev%2 == 0) {
				t.Fatalf("%+v: want an even revision alive and an odd one dead, above the one before", w)
			}
			store = doc{w.NewRev, w.Heartbeat, state, true}
			return protocol.Applied
		}
		act := func(acts []protocol.SessionAction) {
			for _, a := range acts {
				switch a.Kind {
				case protocol.SendHeartbeat, protocol.MarkDead:
					if sent != nil || reading {
						t.Fatalf("%+v while %+v is under way, reading %v", a, sent, reading)
					}
					// A creation may be followed by one as dead: under the same condition, only one of them can land.
					if a.Kind == protocol.SendHeartbeat && a.IfRev == 0 && len(sentAt) > 0 {
						t.Fatalf("a creation is sent twice")
					}
					if pending && a != last && (a.Kind != protocol.MarkDead || a.IfRev != last.IfRev) {
						t.Fatalf("unanswered %+v followed by %+v", last, a)
					}
					// nothing has run before it was open
					if a.Kind == protocol.MarkDead && running && s.Rev > 0 && s.Phase != protocol.Ended {
						t.Fatalf("ends itself while tasks run")
					}
					if _, again := sentAt[a.Heartbeat]; !again && a.Kind == protocol.SendHeartbeat {
						sentAt[a.Heartbeat] = now
					}
					w := a
					sent, last, pending = &w, a, true
				case protocol.ReadSession:
					if sent != nil || reading {
						t.Fatalf("reads with %+v", sent)
					}
					reading = true
				case protocol.Renewed:
					clear(reported)
					if a.Acked != instant(sentAt[s.Heartbeat]) {
						t.Fatalf(
							"counts from %v, heartbeat %d was first sent at %v", a.Acked, s.Heartbeat,
							sentAt[s.Heartbeat],
						)
					}
				case protocol.CancelTasks, protocol.KillTasks, protocol.HardStop:
					// lost: reported in any case
					if reported[a.Kind] && (a.Kind != protocol.KillTasks || s.Phase != protocol.Lost) {
						t.Fatalf("reported %v twice", a.Kind)
					}
					reported[a.Kind] = true
				case protocol.SessionOver:
					if store.state != protocol.Dead || running && s.Rev > 0 {
						t.Fatalf("over with the document at %+v, running %v", store, running)
					}
				}
			}
		}
		step := func(ev protocol.SessionEvent) {
			var acts []protocol.SessionAction
			ev.Clock = clock
			s, acts = s.Step(p, ev, instant(now))
			act(acts)
			if s.Rev > 0 && s.Phase == protocol.Open {
				since := instant(now).HolderElapsed(s.Acked)
				if since >= p.Renew && !reported[protocol.CancelTasks] || since >= p.Hard &&
					!reported[protocol.HardStop] {
					t.Fatalf("%v after the last acknowledged heartbeat was sent, reported only %v", since, reported)
				}
			}
			if s.Valid(p, instant(now)) && !foreign && store.state == protocol.Dead {
				t.Fatalf("valid although it ended itself")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				now += time.Duration(rapid.Int64Range(1, int64(p.T/4)).Draw(t, "d"))
				step(protocol.SessionEvent{Kind: protocol.SessionTick})
			},
			"answered": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				w := *sent
				sent, pending = nil, false
				step(protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: apply(w)})
			},
			"answer lost": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				w := *sent
				sent = nil
				if rapid.Bool().Draw(t, "late") {
					late = append(late, w)
				} else if rapid.Bool().Draw(t, "landed") {
					apply(w)
				}
				step(protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: protocol.Unknown})
			},
			"a late request lands": func(t *rapid.T) {
				if len(late) == 0 {
					t.Skip()
				}
				w := late[0]
				late = late[1:]
				apply(w)
			},
			"read": func(t *rapid.T) {
				if !reading {
					t.Skip()
				}
				reading, pending = false, false
				ev := protocol.SessionEvent{Kind: protocol.SessionRead, OK: rapid.Bool().Draw(t, "ok")}
				if ev.OK {
					ev.Rev, ev.Heartbeat, ev.State, ev.Mine = store.rev, store.heartbeat, store.state, store.mine
				} else {
					pending = false
				}
				step(ev)
			},
			"killed": func(t *rapid.T) {
				if store.rev == 0 || store.state == protocol.Dead {
					t.Skip()
				}
				store, foreign = doc{protocol.DeadRev(store.rev, clock), store.heartbeat, protocol.Dead, false}, true
			},
			"deleted": func(*rapid.T) { store, foreign = doc{}, true },
			"created as dead": func(t *rapid.T) {
				if store.rev != 0 || len(sentAt) == 0 {
					t.Skip()
				}
				store, foreign = doc{protocol.DeadRev(0, clock), 0, protocol.Dead, false}, true
			},
			"clock": func(t *rapid.T) { clock = max(1, clock+rapid.Int64Range(-9, 9).Draw(t, "d")) },
			"drain": func(*rapid.T) { step(protocol.SessionEvent{Kind: protocol.SessionDrain}) },
			"tasks off": func(t *rapid.T) {
				if s.Phase != protocol.Lost && !s.End {
					t.Skip()
				}
				running = false
				step(protocol.SessionEvent{Kind: protocol.SessionTasksOff})
			},
		})
	})
}

func TestPropertyKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type doc struct {
			rev  int64
			mine bool
		}
		var (
			k       protocol.Key
			store   = doc{rev: 5}
			clock   = int64(1000)
			valid   = true
			sent    *protocol.KeyAction
			late    []protocol.KeyAction
			last    protocol.KeyAction
			pending bool
			reading bool
			runs    bool
			token   int64 // of the last start or advance
			landed  = map[int64]bool{}
		)
		apply := func(w protocol.KeyAction) protocol.Status {
			if landed[w.NewRev] && store.rev == w.NewRev {
				return protocol.Applied
			}
			if store.rev != w.IfRev {
				return protocol.Refused
			}
			store = doc{w.NewRev, w.Op != protocol.Release}
			landed[w.NewRev] = true
			return protocol.Applied
		}
		act := func(acts []protocol.KeyAction) {
			for _, a := range acts {
				switch a.Kind {
				case protocol.WriteKey:
					if sent != nil || reading {
						t.Fatalf("%+v with %+v", a, sent)
					}
					if pending && a != last {
						t.Fatalf("unanswered %+v followed by %+v", last, a)
					}
					if a.Op == protocol.Release && runs {
						t.Fatalf("releases while its callback runs")
					}
					if a.Op == protocol.Claim && runs {
						t.Fatalf("claims while its callback runs")
					}
					if a.NewRev <= a.IfRev {
						t.Fatalf("%+v does not rise", a)
					}
					w := a
					sent, last, pending = &w, a, true
				case protocol.ReadKey:
					if sent != nil || reading {
						t.Fatalf("reads with %+v", sent)
					}
					reading = true
				case protocol.StartKey, protocol.Advanced:
					if a.Token <= token {
						t.Fatalf("token %d after %d", a.Token, token)
					}
					token = a.Token
					if !landed[a.Token] {
						t.Fatalf("token %d was never written", a.Token)
					}
					if a.Kind == protocol.StartKey {
						if !valid || runs {
							t.Fatalf("starts with valid %v, running %v", valid, runs)
						}
						runs = true
					}
				case protocol.StopKey, protocol.KillKey:
					if !runs {
						t.Fatalf("stops what does not run")
					}
				case protocol.KeyOff:
					if runs {
						t.Fatalf("free while its callback runs")
					}
					pending, reading, sent = false, false, nil // late answers are not waited for
				}
			}
		}
		step := func(ev protocol.KeyEvent) {
			ev.Valid, ev.Clock = valid, clock
			var acts []protocol.KeyAction
			before := k
			k, acts = k.Step(ev)
			if k.Lost && !before.Lost {
				pending, reading, sent = false, false, nil
			}
			act(acts)
		}
		send := func(kind protocol.KeyEventKind) func(*rapid.T) {
			return func(*rapid.T) { step(protocol.KeyEvent{Kind: kind}) }
		}
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				if k.Phase != protocol.Free || !valid {
					t.Skip()
				}
				step(protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: store.rev})
			},
			"answered": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				w := *sent
				sent, pending = nil, false
				step(protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: apply(w)})
			},
			"answer lost": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				w := *sent
				sent = nil
				if rapid.Bool().Draw(t, "late") {
					late = append(late, w)
				} else if rapid.Bool().Draw(t, "landed") {
					apply(w)
				}
				step(protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: protocol.Unknown})
			},
			"a late request lands": func(t *rapid.T) {
				if len(late) == 0 {
					t.Skip()
				}
				apply(late[0])
				late = late[1:]
			},
			"read": func(t *rapid.T) {
				if !reading {
					t.Skip()
				}
				reading = false
				ev := protocol.KeyEvent{Kind: protocol.KeyRead, OK: rapid.Bool().Draw(t, "ok")}
				if ev.OK {
					pending = false
					ev.Rev, ev.Mine, ev.Ours = store.rev, store.mine, store.mine
				}
				step(ev)
			},
			"another takes it": func(*rapid.T) {
				store = doc{protocol.NextRev(store.rev, clock), false}
			},
			"returns": func(t *rapid.T) {
				if !runs {
					t.Skip()
				}
				runs = false
				step(protocol.KeyEvent{Kind: protocol.KeyReturned})
			},
			"D": func(*rapid.T) {
				valid = false
				step(protocol.KeyEvent{Kind: protocol.KeyDeadline})
			},
			"valid again": func(*rapid.T) {
				valid = true
				step(protocol.KeyEvent{Kind: protocol.KeyResume})
			},
			"clock": func(t *rapid.T) { clock += rapid.Int64Range(-100, 1000).Draw(t, "d") },
			"tick":  send(protocol.KeyTick), "give up": send(protocol.KeyGiveUp), "lose": send(protocol.KeyLose),
			"advance": send(protocol.KeyAdvance), "report": send(protocol.KeyReport),
		})
	})
}

func TestPropertyPeer(t *testing.T) {
	p := params(t)
	rapid.Check(t, func(t *rapid.T) {
		type doc struct {
			rev   int64
			state protocol.State
		}
		var (
			q         protocol.Peer
			store     = doc{1, protocol.Live}
			now       time.Duration
			shown     = map[int64]time.Duration{} // when a reply first showed a revision; 0: when a read found none
			restarted time.Duration
			sent      *protocol.PeerAction
			pending   *protocol.PeerAction
			reading   bool
			died      bool
		)
		step := func(ev protocol.PeerEvent) {
			var acts []protocol.PeerAction
			ev.Patience = p.T
			q, acts = q.Step(p, ev, instant(now))
			for _, a := range acts {
				switch a.Kind {
				case protocol.KillPeer:
					if sent != nil || reading {
						t.Fatalf("kills with %+v, reading %v", sent, reading)
					}
					if pending != nil && *pending == a {
						break // the same again: its patience was asked for the first time
					}
					first, ok := shown[a.IfRev]
					if !ok || now-max(first, restarted) < p.T {
						t.Fatalf(
							"kills revision %d at %v, first shown at %v (%v), ages restarted at %v", a.IfRev, now,
							first, ok, restarted,
						)
					}
				case protocol.ReadPeer:
					if reading {
						t.Fatalf("reads twice")
					}
					reading = true
				case protocol.PeerDied:
					if died || store.state != protocol.Dead {
						t.Fatalf("died with the document at %+v, before %v", store, died)
					}
					died = true
				}
				if a.Kind == protocol.KillPeer {
					w := a
					sent = &w
				}
			}
		}
		see := func(sure bool) {
			if _, ok := shown[store.rev]; !ok {
				shown[store.rev] = now
			}
			delete(shown, 0) // it is there: the age of its absence starts again
			step(protocol.PeerEvent{
				Kind: protocol.PeerSeen, State: store.state, Rev: store.rev, Heartbeat: store.rev, Lease: p.T,
				Sure: sure,
			})
		}
		apply := func(w protocol.PeerAction) protocol.Status {
			if store.rev != w.IfRev {
				return protocol.Refused
			}
			store = doc{w.NewRev, protocol.Dead}
			return protocol.Applied
		}
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				now += time.Duration(rapid.Int64Range(1, int64(p.T/2)).Draw(t, "d"))
				step(protocol.PeerEvent{Kind: protocol.PeerTick})
			},
			"heartbeats": func(t *rapid.T) {
				if store.rev == 0 || store.state == protocol.Dead {
					t.Skip()
				}
				store.rev = protocol.AliveRev(store.rev, 1)
			},
			"seen": func(t *rapid.T) {
				if store.rev == 0 {
					t.Skip()
				}
				see(false)
			},
			"deleted": func(t *rapid.T) {
				if store.state == protocol.Dead || rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					t.Skip()
				}
				store = doc{}
			},
			"not in the list": func(t *rapid.T) {
				if store.rev != 0 {
					t.Skip()
				}
				step(protocol.PeerEvent{Kind: protocol.PeerWanted})
			},
			"read": func(t *rapid.T) {
				if !reading {
					t.Skip()
				}
				reading = false
				switch {
				case rapid.IntRange(0, 3).Draw(t, "fails") == 0:
					step(protocol.PeerEvent{Kind: protocol.PeerUnread})
				case store.rev == 0:
					if _, ok := shown[0]; !ok {
						shown[0] = now
					}
					step(protocol.PeerEvent{Kind: protocol.PeerMissing})
				default:
					see(true)
				}
			},
			"answered": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				w := *sent
				sent, pending = nil, nil
				step(protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: apply(w)})
			},
			"answer lost": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				w := *sent
				sent, pending = nil, &w
				step(protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: protocol.Unknown})
			},
			"outage over": func(*rapid.T) {
				restarted = now
				step(protocol.PeerEvent{Kind: protocol.PeerReset})
			},
		})
	})
}
