package protocol_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

var schedules = flag.Int("app.schedules", 4_000, "schedules of an application to try")

// appRule is one of the rules that keep an application and its replica safe. Tests break them one at a time.
type appRule int

const (
	everyRule          appRule = iota
	countsFromArrival          // ✗ a validity counts from when the reply arrives
	obeysOlderReplies          // ✗ a reply to an older call is obeyed
	anyCallReleases            // ✗ a key is released by any call that does not list it
	forgetsValidity            // ✗ the replica waits for a tenth of the validity
	ignoresSession             // ✗ what runs goes on when the session changes
	seqWithoutSession          // ✗ seq counts whatever session it is of
	newestWins                 // ✗ another application is listened to at once
	extendsWhatIsOver          // ✗ a reply is acted on before what is over was stopped
	diesWithoutRemains         // ✗ the keys of a worker that dies are free at once
)

// appWorld is one replica with its worker, two processes of an application, and a network that delays, loses and
// repeats. Time is in ms.
type appWorld struct {
	rand  *rand.Rand
	weak  appRule
	now   int64
	app   *protocol.App
	token int64

	session  string
	sessions int
	acked    int64 // the last heartbeat
	calls    int64

	assigned map[string]int64 // by the replica: the tokens that it has not been told to be free
	taken    map[string]bool
	busy     map[string]busyKey // keys of workers that died
	apps     []*testApp
	messages []appMessage
	wrong    string
	replies  int
	starts   int
}

// busyKey is not free until then: it may run under that token.
type busyKey struct{ token, until int64 }

type appMessage struct {
	at    int64
	to    int // process that a reply is for; -1: a call for the replica
	call  protocol.AppCall
	sent  int64
	n     int64 // of the call in its process
	reply appReply
}

type appReply struct {
	refused, dropped bool
	session          string
	seq              int64
	validFor         int64
	assigned         map[string]int64
}

// testApp is a process of the application, as a library is to be written.
type testApp struct {
	id       string
	gone     bool
	frozen   int64 // until when
	session  string
	seq      int64
	validTo  int64
	running  map[string]int64
	n        int64 // of the newest call
	sent     int64
	answered bool
	slow     bool // it does not stop what it is asked to stop
}

const (
	appHard = 900 // ms of the lease of 1,000
	appKeys = 2
)

func newAppWorld(seed uint64, weak appRule) *appWorld {
	w := &appWorld{
		rand: rand.New(rand.NewPCG(seed, 7)), weak: weak, assigned: map[string]int64{}, taken: map[string]bool{},
		busy: map[string]busyKey{},
	}
	w.restartWorker()
	for i := range 2 {
		w.apps = append(w.apps, &testApp{id: fmt.Sprint("app-", i), running: map[string]int64{}, answered: true})
	}
	return w
}

func (w *appWorld) instant() protocol.Instant {
	at := time.Duration(w.now) * time.Millisecond
	return protocol.Instant{Mono: at, Boot: at}
}

func (w *appWorld) left() time.Duration {
	if w.session == "" {
		return 0
	}
	return time.Duration(w.acked+appHard-w.now) * time.Millisecond
}

func (w *appWorld) step(ev protocol.AppEvent) {
	ev.Left = w.left()
	pending := map[int64]appMessage{}
	for _, m := range w.messages {
		if m.to == -2 { // a call that waits
			pending[m.call.N] = m
		}
	}
	for _, do := range w.app.Step(ev, w.instant()) {
		m := pending[do.N]
		switch do.Kind {
		case protocol.AppRelease:
			if w.assigned[do.Key] != do.Token {
				w.fail("%s is released under token %d, and has %d", do.Key, do.Token, w.assigned[do.Key])
			}
			delete(w.assigned, do.Key)
			delete(w.taken, do.Key)
			w.free(do.Key, "it was released")
		case protocol.AppReply:
			r := appReply{
				session: w.session, seq: w.app.Seq(), validFor: do.ValidFor.Milliseconds(), assigned: map[string]int64{},
			}
			w.app.Each(func(key string, token int64, assigned, _ bool) {
				if assigned {
					r.assigned[key] = token
				}
			})
			if w.weak == forgetsValidity {
				r.validFor *= 10
			}
			w.replies++
			w.send(m, r)
		case protocol.AppRefuse:
			w.send(m, appReply{refused: true})
		case protocol.AppDrop:
			w.send(m, appReply{dropped: true})
		}
		w.messages = slices.DeleteFunc(w.messages, func(m appMessage) bool { return do.N != 0 && m.to == -2 && m.call.N == do.N })
	}
}

func (w *appWorld) send(m appMessage, r appReply) {
	to := slices.IndexFunc(w.apps, func(a *testApp) bool { return a.id == m.call.ID })
	if to < 0 || w.rand.IntN(8) == 0 { // the process is gone, or the reply is lost
		return
	}
	w.messages = append(w.messages, appMessage{at: w.now + w.delay(), to: to, reply: r, sent: m.sent, n: m.n, call: m.call})
}

func (w *appWorld) delay() int64 {
	if w.rand.IntN(4) == 0 {
		return w.rand.Int64N(1500)
	}
	return w.rand.Int64N(30)
}

func (w *appWorld) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("at %d ms: ", w.now) + fmt.Sprintf(format, args...)
	}
}

// free checks that nobody works on a key that may be taken now.
func (w *appWorld) free(key, why string) {
	for _, a := range w.apps {
		if a.running[key] != 0 && !a.gone && a.frozen <= w.now && w.now < a.validTo {
			w.fail("%s is free since %s, and %s runs it under token %d until %d", key, why, a.id, a.running[key], a.validTo)
		}
	}
}

// restartWorker is a worker that died, and one that begins in its place.
func (w *appWorld) restartWorker() {
	if w.app != nil {
		until := w.now + w.app.Remains(w.instant()).Milliseconds()
		if w.weak == diesWithoutRemains {
			until = w.now
		}
		for key, token := range w.assigned {
			w.busy[key] = busyKey{token, until}
		}
	}
	w.app, w.assigned, w.taken = protocol.NewApp(), map[string]int64{}, map[string]bool{}
	w.messages = slices.DeleteFunc(w.messages, func(m appMessage) bool { return m.to == -2 })
	w.newSession()
}

func (w *appWorld) newSession() {
	w.sessions++
	w.session, w.acked = fmt.Sprint("session-", w.sessions), w.now
	w.step(protocol.AppEvent{Kind: protocol.AppSession, Session: w.session})
}

// chance does something at random.
func (w *appWorld) chance() {
	key := fmt.Sprint("key-", w.rand.IntN(appKeys))
	a := w.apps[w.rand.IntN(len(w.apps))]
	switch w.rand.IntN(24) {
	case 0, 1, 2, 3, 4:
		_, has := w.assigned[key]
		if _, busy := w.busy[key]; !has && !busy && w.app.Capacity() && w.left() > 0 {
			w.token++
			w.assigned[key] = w.token
			w.free(key, "it is assigned again")
			w.step(protocol.AppEvent{Kind: protocol.AppAssign, Key: key, Token: w.token})
		}
	case 5, 6, 7, 8:
		if _, has := w.assigned[key]; has && !w.taken[key] {
			w.taken[key] = true
			w.step(protocol.AppEvent{Kind: protocol.AppTake, Key: key})
		}
	case 9, 10, 11:
		if w.left() > 0 {
			w.acked = w.now - w.rand.Int64N(50) // acknowledged, and sent a moment ago
		}
	case 12:
		a.frozen = w.now + w.rand.Int64N(2000)
	case 13:
		if w.rand.IntN(4) == 0 { // the process dies, and another begins
			a.gone = true
			fresh := &testApp{id: fmt.Sprintf("%s+%d", a.id, w.now), running: map[string]int64{}, answered: true}
			w.apps[slices.Index(w.apps, a)] = fresh
		}
	case 14:
		if w.rand.IntN(6) == 0 {
			w.restartWorker()
		}
	case 15:
		if w.left() <= 0 { // the lease was lost: the keys have to stop
			for key := range maps.Clone(w.assigned) {
				w.taken[key] = true
				w.step(protocol.AppEvent{Kind: protocol.AppTake, Key: key})
			}
			w.newSession()
		}
	case 16:
		a.slow = !a.slow
	case 17, 18:
		w.step(protocol.AppEvent{Kind: protocol.AppWaited})
	default:
		w.step(protocol.AppEvent{Kind: protocol.AppTick})
	}
	for key, b := range maps.Clone(w.busy) {
		if w.now >= b.until {
			delete(w.busy, key)
			w.free(key, "its worker died")
		}
	}
}

// deliver takes the messages that have arrived.
func (w *appWorld) deliver() {
	for i := 0; i < len(w.messages); i++ {
		m := w.messages[i]
		if m.at > w.now || m.to == -2 || m.to >= 0 && w.apps[m.to].frozen > w.now {
			continue
		}
		w.messages = slices.Delete(w.messages, i, i+1)
		i--
		if m.to >= 0 {
			w.answered(w.apps[m.to], m)
			continue
		}
		w.calls++
		m.call.N, m.to = w.calls, -2
		if w.weak == anyCallReleases || w.weak == seqWithoutSession {
			m.call.Session = w.session
		}
		if w.weak == anyCallReleases {
			m.call.Seq = w.app.Seq()
		}
		if w.weak == newestWins && w.app.Application() != m.call.ID {
			w.step(protocol.AppEvent{Kind: protocol.AppEnded})
		}
		w.messages = append(w.messages, m)
		w.step(protocol.AppEvent{Kind: protocol.AppCalled, Call: m.call})
		i = -1
	}
}

// run lets a process do what it does by itself: stop what is no longer valid, and call.
func (w *appWorld) run(a *testApp) {
	if a.frozen > w.now {
		return
	}
	if w.now >= a.validTo {
		clear(a.running)
	}
	if a.answered || w.now-a.sent > 300 {
		a.n++
		a.answered, a.sent = false, w.now
		m := appMessage{
			at: w.now + w.delay(), to: -1, sent: w.now, n: a.n,
			call: protocol.AppCall{ID: a.id, Session: a.session, Seq: a.seq, Ready: true, Running: maps.Clone(a.running)},
		}
		if w.rand.IntN(8) > 0 {
			w.messages = append(w.messages, m)
		}
		if w.rand.IntN(8) == 0 { // repeated by the network
			m.at += w.delay()
			w.messages = append(w.messages, m)
		}
	}
}

// answered is a reply that has arrived.
func (w *appWorld) answered(a *testApp, m appMessage) {
	if m.call.ID != a.id || (m.n != a.n || a.answered) && w.weak != obeysOlderReplies {
		return
	}
	a.answered = a.answered || m.n == a.n
	if m.reply.refused || m.reply.dropped {
		return
	}
	if a.session != m.reply.session && w.weak != ignoresSession {
		clear(a.running)
		a.validTo = 0
	}
	if w.now >= a.validTo && w.weak != extendsWhatIsOver {
		clear(a.running) // before the reply is looked at
	}
	from := m.sent
	if w.weak == countsFromArrival {
		from = w.now
	}
	a.session, a.seq = m.reply.session, m.reply.seq
	a.validTo = max(a.validTo, from+m.reply.validFor)
	if w.now >= a.validTo {
		clear(a.running)
		return
	}
	for key := range maps.Clone(a.running) {
		if _, still := m.reply.assigned[key]; !still && !a.slow {
			delete(a.running, key)
		}
	}
	for key, token := range m.reply.assigned {
		if a.running[key] >= token {
			continue
		}
		if w.assigned[key] != token && w.busy[key].token != token {
			w.fail("%s begins %s under token %d, which is free: assigned %d", a.id, key, token, w.assigned[key])
		}
		a.running[key] = token
		w.starts++
	}
}

func runApps(seed uint64, weak appRule) *appWorld {
	w := newAppWorld(seed, weak)
	for range 400 {
		w.now += w.rand.Int64N(60)
		w.deliver()
		for _, a := range w.apps {
			w.run(a)
		}
		w.chance()
		if w.wrong != "" {
			break
		}
	}
	return w
}

// TestApplicationRunsNothingThatIsFree tries schedules at random: calls and replies that are late, lost or there twice,
// processes that are frozen or die, workers that die, leases that are lost.
func TestApplicationRunsNothingThatIsFree(t *testing.T) {
	seeds, starts, replies := *schedules, 0, 0
	for seed := range seeds {
		w := runApps(uint64(seed), everyRule)
		if w.wrong != "" {
			t.Fatalf("seed %d: %s", seed, w.wrong)
		}
		starts, replies = starts+w.starts, replies+w.replies
	}
	t.Logf("%d schedules, %d replies, %d starts", seeds, replies, starts)
	if starts < seeds || replies < 10*seeds {
		t.Errorf("%d starts and %d replies in %d schedules: nothing is shown", starts, replies, seeds)
	}
}

// TestEachApplicationRuleIsNeeded breaks one rule at a time: then two run.
func TestEachApplicationRuleIsNeeded(t *testing.T) {
	for name, weak := range map[string]appRule{
		"counts from arrival": countsFromArrival, "obeys older replies": obeysOlderReplies,
		"any call releases": anyCallReleases, "forgets the validity": forgetsValidity,
		"ignores the session": ignoresSession, "seq without session": seqWithoutSession, "newest wins": newestWins,
		"extends what is over": extendsWhatIsOver, "dies without remains": diesWithoutRemains,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100_000) {
				if w := runApps(seed, weak); w.wrong != "" {
					t.Logf("seed %d: %s", seed, w.wrong)
					return
				}
			}
			t.Error("nothing went wrong")
		})
	}
}
