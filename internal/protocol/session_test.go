package protocol_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

const lease = 20 * time.Second

func params(tb testing.TB) protocol.Params {
	tb.Helper()
	p, err := protocol.NewParams(lease, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// instant is a moment d after an arbitrary boot.
func instant(d time.Duration) protocol.Instant {
	return protocol.Instant{Mono: time.Hour, Boot: 2 * time.Hour}.Add(d)
}

// aSession drives one session's machine along a line of time.
type aSession struct {
	t   *testing.T
	p   protocol.Params
	now time.Duration
	protocol.Session
}

func newSession(t *testing.T) *aSession {
	t.Helper()
	return &aSession{t: t, p: params(t)}
}

// openSession is a session whose creation was sent at 0 and answered at once.
func openSession(t *testing.T) *aSession {
	t.Helper()
	s := newSession(t)
	s.wants(s.tick(0), protocol.SendHeartbeat)
	s.wants(s.answer(0, protocol.Applied), protocol.Renewed)
	return s
}

func (s *aSession) do(at time.Duration, ev protocol.SessionEvent) []protocol.SessionAction {
	s.now = at
	ev.Clock = max(ev.Clock, 1)
	next, acts := s.Step(s.p, ev, instant(at))
	s.Session = next
	return acts
}

func (s *aSession) tick(at time.Duration) []protocol.SessionAction {
	return s.do(at, protocol.SessionEvent{Kind: protocol.SessionTick})
}

func (s *aSession) answer(at time.Duration, status protocol.Status) []protocol.SessionAction {
	return s.do(at, protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: status})
}

func (s *aSession) found(
	at time.Duration, rev, heartbeat int64, state protocol.State, mine bool,
) []protocol.SessionAction {
	return s.do(at, protocol.SessionEvent{
		Kind: protocol.SessionRead, OK: true, Rev: rev, Heartbeat: heartbeat, State: state, Mine: mine,
	})
}

// wants checks the kinds of actions, in order.
func (s *aSession) wants(got []protocol.SessionAction, kinds ...protocol.SessionActionKind) {
	s.t.Helper()
	var have []protocol.SessionActionKind
	for _, a := range got {
		have = append(have, a.Kind)
	}
	if !slices.Equal(have, kinds) {
		s.t.Fatalf("at %v: actions %v, want %v; state %+v", s.now, have, kinds, s.Session)
	}
}

func (s *aSession) valid(at time.Duration) bool { return s.Valid(s.p, instant(at)) }

func TestSessionOpensWithHeartbeatOne(t *testing.T) {
	s := newSession(t)
	acts := s.tick(0)
	s.wants(acts, protocol.SendHeartbeat)
	if a := acts[0]; a.IfRev != 0 || a.NewRev != 2 || a.Heartbeat != 1 || a.State != protocol.Live {
		t.Errorf("opens with %+v", a)
	}
	if s.valid(0) {
		t.Error("valid before its creation is acknowledged")
	}
	s.wants(s.tick(time.Second)) // one write at a time
	s.answer(3*time.Second, protocol.Applied)
	if !s.valid(3 * time.Second) {
		t.Error("not valid once acknowledged")
	}
}

func TestSessionDeadlinesCountFromTheSending(t *testing.T) {
	s := openSession(t)
	s.wants(s.tick(s.p.Heartbeat), protocol.SendHeartbeat)
	acts := s.answer(s.p.Heartbeat+3*time.Second, protocol.Applied)
	s.wants(acts[:1], protocol.Renewed)
	if acts[0].Acked != instant(s.p.Heartbeat) {
		t.Errorf("counts from %v, want from the sending at %v", acts[0].Acked, instant(s.p.Heartbeat))
	}
}

func TestSessionDeadlinesCountFromTheFirstCopyOfARepeatedHeartbeat(t *testing.T) {
	s := openSession(t)
	first := s.tick(s.p.Heartbeat)
	s.wants(s.answer(s.p.Heartbeat+time.Second, protocol.Unknown))
	second := s.tick(s.p.Heartbeat + 2*time.Second)
	s.wants(second, protocol.SendHeartbeat)
	if first[0] != second[0] {
		t.Errorf("the repeat %+v is another write than %+v", second[0], first[0])
	}
	s.answer(s.p.Heartbeat+2*time.Second, protocol.Applied)
	if s.Acked != instant(s.p.Heartbeat) {
		t.Errorf("counts from %v: the copy that landed may be the one sent at %v", s.Acked, instant(s.p.Heartbeat))
	}
}

func TestSessionUnacknowledgedHeartbeatsMoveNothing(t *testing.T) {
	s := openSession(t)
	for at := s.p.Heartbeat; at < s.p.Renew; at += s.p.Heartbeat {
		s.tick(at)
		s.answer(at+time.Millisecond, protocol.Unknown)
	}
	if !s.valid(s.p.Renew - 1) {
		t.Error("not valid a nanosecond before D")
	}
	if s.valid(s.p.Renew) {
		t.Error("valid at D")
	}
}

func TestSessionDeadlinesAreReportedOnceEach(t *testing.T) {
	s := openSession(t)
	s.tick(s.p.Heartbeat) // hangs
	s.wants(s.tick(s.p.Renew - 1))
	s.wants(s.tick(s.p.Renew), protocol.CancelTasks)
	s.wants(s.tick(s.p.Renew + 1))
	s.wants(s.tick(s.p.Kill), protocol.KillTasks)
	s.wants(s.tick(s.p.Hard), protocol.HardStop)
	s.wants(s.tick(s.p.Hard + time.Second))
}

func TestSessionDeadlinesTakeTheLargerClock(t *testing.T) {
	s := openSession(t)
	s.tick(s.p.Heartbeat)
	asleep := protocol.Instant{Mono: instant(0).Mono + s.p.Heartbeat, Boot: instant(0).Boot + s.p.Hard}
	_, acts := s.Step(s.p, protocol.SessionEvent{}, asleep)
	s.wants(acts, protocol.CancelTasks, protocol.KillTasks, protocol.HardStop)
	if s.Valid(s.p, asleep) {
		t.Error("valid although the machine slept beyond D")
	}
}

func TestSessionRepeatsAfterAFailureAreSpaced(t *testing.T) {
	s := openSession(t)
	s.tick(s.p.Heartbeat)
	s.wants(s.answer(s.p.Heartbeat, protocol.Unknown))
	s.wants(s.tick(s.p.Heartbeat + s.p.Retry - 1))
	s.wants(s.tick(s.p.Heartbeat+s.p.Retry), protocol.SendHeartbeat)
}

func TestSessionReadsAfterARefusalAndWaitsAfterAFailedRead(t *testing.T) {
	s := openSession(t)
	s.tick(s.p.Heartbeat)
	s.wants(s.answer(s.p.Heartbeat, protocol.Refused), protocol.ReadSession)
	s.wants(s.do(s.p.Heartbeat, protocol.SessionEvent{Kind: protocol.SessionRead}))
	s.wants(s.tick(s.p.Heartbeat + s.p.Retry - 1))
	s.wants(s.tick(s.p.Heartbeat+s.p.Retry), protocol.ReadSession)
	if s.Acked != instant(0) {
		t.Error("a refused heartbeat moved the deadline")
	}
}

func TestSessionRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		rev, heartbeat int64
		state          protocol.State
		mine           bool
		want           protocol.SessionPhase
		acked          bool
	}{
		"an earlier copy had landed": {
			rev: 4, heartbeat: 2, state: protocol.Live, mine: true, want: protocol.Open, acked: true,
		},
		"still as it was: again": {
			rev: 2, heartbeat: 1, state: protocol.Live, mine: true, want: protocol.Open,
		},
		"marked dead":               {rev: 3, heartbeat: 1, state: protocol.Dead, want: protocol.Lost},
		"gone":                      {state: protocol.Absent, want: protocol.Lost},
		"something unknown":         {rev: 4, heartbeat: 1, state: protocol.Other, want: protocol.Lost},
		"written out of band, live": {rev: 4, heartbeat: 2, state: protocol.Live, want: protocol.Lost},
		"dead at the revision of the heartbeat": {
			rev: 4, heartbeat: 2, state: protocol.Dead, mine: true, want: protocol.Lost,
		},
		"the heartbeat of an older backup": {
			rev: 1, heartbeat: 0, state: protocol.Live, mine: true, want: protocol.Lost,
		},
		"a later revision with another heartbeat": {
			rev: 6, heartbeat: 2, state: protocol.Live, mine: true, want: protocol.Lost,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSession(t)
			s.tick(s.p.Heartbeat)
			s.answer(s.p.Heartbeat, protocol.Refused)
			acts := s.found(s.p.Heartbeat, c.rev, c.heartbeat, c.state, c.mine)
			if s.Phase != c.want {
				t.Fatalf("phase %v, want %v", s.Phase, c.want)
			}
			if moved := s.Acked != instant(0); moved != c.acked {
				t.Errorf("deadline moved: %v, want %v", moved, c.acked)
			}
			if c.want == protocol.Lost {
				s.wants(acts, protocol.KillTasks)
				if s.valid(s.p.Heartbeat) {
					t.Error("a lost session is valid")
				}
			}
		})
	}
}

func TestSessionIsReplacedOnlyWhenNothingRuns(t *testing.T) {
	s := openSession(t)
	s.tick(s.p.Heartbeat)
	s.answer(s.p.Heartbeat, protocol.Refused)
	s.found(s.p.Heartbeat, 3, 1, protocol.Dead, false)
	s.wants(s.tick(s.p.Heartbeat + s.p.T/2)) // tasks still stopping: nothing is written, nothing opened
	s.wants(s.tick(s.p.Hard), protocol.HardStop)
	acts := s.do(s.p.Hard, protocol.SessionEvent{Kind: protocol.SessionTasksOff})
	s.wants(acts, protocol.MarkDead)
	if acts[0].IfRev != 3 || acts[0].NewRev != 5 {
		t.Errorf("marks revision %d dead at %d, found 3", acts[0].IfRev, acts[0].NewRev)
	}
	s.wants(s.answer(s.p.Hard, protocol.Applied), protocol.SessionOver)
}

func TestSessionEndIsRepeatedUntilAnswered(t *testing.T) {
	s := openSession(t)
	s.wants(s.do(1, protocol.SessionEvent{Kind: protocol.SessionDrain}), protocol.SendHeartbeat)
	if s.Write.State != protocol.Draining {
		t.Errorf("says %v", s.Write.State)
	}
	s.wants(s.do(2, protocol.SessionEvent{Kind: protocol.SessionTasksOff})) // the heartbeat is answered first
	acts := s.answer(3, protocol.Applied)
	s.wants(acts, protocol.Renewed, protocol.MarkDead)
	s.wants(s.answer(4, protocol.Unknown))
	again := s.tick(4 + s.p.Retry)
	s.wants(again, protocol.MarkDead)
	if again[0] != acts[1] {
		t.Errorf("repeats %+v as %+v", acts[1], again[0])
	}
	s.wants(s.answer(5+s.p.Retry, protocol.Refused), protocol.ReadSession)
	s.wants(s.found(6+s.p.Retry, 5, 2, protocol.Dead, false), protocol.SessionOver)
	s.wants(s.tick(time.Hour))
}

// With answers slower than the pause between heartbeats, one heartbeat was always under way and the session never
// ended.
func TestSessionEndsAlsoWhenAnswersAreSlow(t *testing.T) {
	s := openSession(t)
	s.do(0, protocol.SessionEvent{Kind: protocol.SessionDrain})
	at := time.Duration(0)
	for range 5 {
		at += 2 * s.p.Heartbeat
		s.do(at, protocol.SessionEvent{Kind: protocol.SessionTasksOff})
		s.answer(at, protocol.Applied)
		if s.Phase == protocol.Ending {
			return
		}
	}
	t.Errorf("still %+v", s.Session)
}

func TestSessionThatWasNeverAnsweredIsCreatedAsDead(t *testing.T) {
	s := newSession(t)
	s.tick(0)
	s.do(1, protocol.SessionEvent{Kind: protocol.SessionDrain})
	s.wants(s.do(2, protocol.SessionEvent{Kind: protocol.SessionTasksOff})) // the creation is still out
	s.answer(3, protocol.Unknown)
	s.do(4, protocol.SessionEvent{Kind: protocol.SessionTasksOff})
	acts := s.tick(3 + s.p.Retry)
	s.wants(acts, protocol.MarkDead)
	if acts[0].IfRev != 0 {
		t.Errorf("conditioned on revision %d, want absence", acts[0].IfRev)
	}
	s.wants(s.answer(4+s.p.Retry, protocol.Refused), protocol.ReadSession) // the creation had landed
	acts = s.found(4+s.p.Retry, 2, 1, protocol.Live, true)
	s.wants(acts, protocol.MarkDead)
	if acts[0].IfRev != 2 || acts[0].NewRev != 3 {
		t.Errorf("writes %d over %d, found 2", acts[0].NewRev, acts[0].IfRev)
	}
	s.wants(s.answer(5+s.p.Retry, protocol.Applied), protocol.SessionOver)
}

func TestSessionDrainingIsSaidAtOnceAndStays(t *testing.T) {
	s := openSession(t)
	acts := s.do(1, protocol.SessionEvent{Kind: protocol.SessionSayDraining})
	s.wants(acts, protocol.SendHeartbeat)
	s.answer(2, protocol.Applied)
	s.wants(s.do(3, protocol.SessionEvent{Kind: protocol.SessionTasksOff})) // not asked to end
	acts = s.tick(1 + s.p.Heartbeat)
	s.wants(acts, protocol.SendHeartbeat)
	if acts[0].State != protocol.Draining || !s.valid(1+s.p.Heartbeat) {
		t.Errorf("heartbeats %v, valid %v; want draining and valid", acts[0].State, s.valid(1+s.p.Heartbeat))
	}
}

func TestSessionAnswersOfNothingAreIgnored(t *testing.T) {
	s := openSession(t)
	before := s.Session
	s.answer(1, protocol.Applied)
	if s.Session != before {
		t.Errorf("%+v became %+v", before, s.Session)
	}
}

func TestSessionRevisions(t *testing.T) {
	for _, c := range []struct{ rev, clock, alive, dead int64 }{
		{0, 1, 2, 1}, {2, 1, 4, 3}, {3, 1, 4, 5}, {2, 100, 100, 101}, {2, 101, 102, 101}, {102, 100, 104, 103},
	} {
		if alive, dead := protocol.AliveRev(c.rev, c.clock), protocol.DeadRev(c.rev, c.clock); alive != c.alive ||
			dead != c.dead {
			t.Errorf(
				"from %d at %d: alive at %d, dead at %d; want %d and %d", c.rev, c.clock, alive, dead, c.alive, c.dead,
			)
		}
	}
}

func TestSessionWritesNothingBeforeTheStoreHasShownItsTime(t *testing.T) {
	p := params(t)
	var s protocol.Session
	s, acts := s.Step(p, protocol.SessionEvent{Kind: protocol.SessionTick}, instant(0))
	if len(acts) > 0 {
		t.Fatalf("%+v before the first reply", acts)
	}
	_, acts = s.Step(p, protocol.SessionEvent{Kind: protocol.SessionTick, Clock: 1001}, instant(1))
	if len(acts) != 1 || acts[0].NewRev != 1002 {
		t.Errorf("%+v, want the creation at 1002", acts)
	}
}

// A copy of the creation that is late lands over the document's own deletion, as fresh as it ever was.
func TestSessionCreationIsSentOnce(t *testing.T) {
	for name, landed := range map[string]bool{"landed": true, "absent": false} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.wants(s.tick(0), protocol.SendHeartbeat)
			s.wants(s.answer(1, protocol.Unknown))
			s.wants(s.tick(s.p.Retry))
			s.wants(s.tick(1+s.p.Retry), protocol.ReadSession)
			if landed {
				s.wants(s.found(2+s.p.Retry, 2, 1, protocol.Live, true), protocol.Renewed)
				if s.Acked != instant(0) {
					t.Errorf("counts from %v, want from the sending", s.Acked)
				}
				return
			}
			acts := s.found(2+s.p.Retry, 0, 0, protocol.Absent, false)
			s.wants(acts, protocol.MarkDead) // so that the copy that is still under way cannot land
			if acts[0].IfRev != 0 || acts[0].NewRev != 1 {
				t.Errorf("%+v, want a creation as dead", acts[0])
			}
			s.wants(s.answer(3+s.p.Retry, protocol.Applied), protocol.SessionOver)
		})
	}
}

func TestSessionReadBelowItsAcknowledgedRevisionIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		rev, heartbeat int64
		state          protocol.State
		want           bool
	}{
		"restored":    {rev: 2, heartbeat: 1, state: protocol.Live, want: true},
		"deleted":     {state: protocol.Absent, want: true},
		"marked dead": {rev: 5, heartbeat: 2, state: protocol.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSession(t)
			s.tick(s.p.Heartbeat)
			s.answer(s.p.Heartbeat, protocol.Applied)
			s.tick(2 * s.p.Heartbeat)
			s.answer(2*s.p.Heartbeat, protocol.Refused)
			s.wants(s.found(2*s.p.Heartbeat, c.rev, c.heartbeat, c.state, true), protocol.KillTasks)
			if s.Lineage.Forgot != c.want {
				t.Errorf("forgot %v, want %v", s.Lineage.Forgot, c.want)
			}
		})
	}
}
