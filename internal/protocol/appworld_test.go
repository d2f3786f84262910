package protocol_test

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

const (
	appHard  = 2 // ticks from the last heartbeat to the hard deadline
	appCalls = 2 // calls that are under way at once, and as many replies
	appTick  = time.Second
)

// appWorld is a replica with its worker, two places for processes of an application, and a network that delays, loses,
// reorders and repeats. Times are in ticks from now.
type appWorld struct {
	rule     appRule
	app      *protocol.App
	now      int64
	session  string
	acked    int64 // when the last heartbeat was sent
	sessions string
	ids      string
	token    int64
	keys     []appWorldKey
	procs    []appProcess
	calls    []appMessage
	replies  []appMessage
	n        int64        // of the newest call that arrived
	waiting  []appMessage // calls that the replica has not answered: one at most, but for a moment
	faults   int          // that may come still
	starts   int
	broken   string
}

// appWorldKey is a key as the replica knows it.
type appWorldKey struct {
	token int64 // 0: it is free
	taken bool
	busy  int64 // a worker died that had given it, and it is free in so many ticks
	old   int64 // the token of that
}

// appProcess is a process of the application, as a library is to be written.
type appProcess struct {
	id, session string
	seq         int64
	validTo     int64
	running     []int64 // tokens
	called      bool    // its newest call is not answered
}

// appMessage is a call, or the reply to it.
type appMessage struct {
	id, session string
	n           int64 // of a call that waits
	sent        int64
	seq         int64
	older       bool    // its process has made another call since, or has acted on a reply to this one
	tokens      []int64 // a call: what runs; a reply: what is assigned
	validFor    int64
}

func newAppWorld(keys, faults int, rule appRule) *appWorld {
	w := &appWorld{
		rule: rule, faults: faults, sessions: "0", ids: "0", keys: make([]appWorldKey, keys), app: protocol.NewApp(),
	}
	w.newSession()
	for range 2 {
		w.procs = append(w.procs, w.newProcess())
	}
	return w
}

func next(counter *string) string {
	n, _ := strconv.Atoi(*counter)
	*counter = strconv.Itoa(n + 1)
	return *counter
}

func keyName(i int) string { return "key-" + strconv.Itoa(i) }

func (w *appWorld) newProcess() appProcess {
	return appProcess{id: next(&w.ids), running: make([]int64, len(w.keys))}
}

func (w *appWorld) newSession() {
	w.session, w.acked = next(&w.sessions), w.now
	w.step(protocol.AppEvent{Kind: protocol.AppSession, Session: w.session})
}

func (w *appWorld) instant() protocol.Instant {
	at := time.Duration(w.now) * appTick
	return protocol.Instant{Mono: at, Boot: at}
}

func (w *appWorld) left() int64 { return w.acked + appHard - w.now }

func (w *appWorld) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// check holds what processes may do against what the replica believes. A process that stands still counts as one that
// looks at its clock.
func (w *appWorld) check() {
	for _, p := range w.procs {
		for i, token := range p.running {
			if k := w.keys[i]; token != 0 && w.now < p.validTo && token != k.token && token != k.old {
				w.fail("application %s runs %s under token %d, which is free", p.id, keyName(i), token)
			}
		}
	}
}

func (w *appWorld) step(ev protocol.AppEvent) {
	ev.Left = time.Duration(w.left()) * appTick
	for _, do := range w.app.Step(ev, w.instant()) {
		switch do.Kind {
		case protocol.AppRelease:
			i := slices.IndexFunc(w.keys, func(k appWorldKey) bool { return k.token == do.Token })
			if i < 0 || keyName(i) != do.Key {
				w.fail("%s is released under token %d, which it does not have", do.Key, do.Token)
				return
			}
			w.keys[i] = appWorldKey{}
		case protocol.AppReply:
			w.reply(w.answer(do.N), do.ValidFor)
		case protocol.AppRefuse, protocol.AppDrop:
			w.answer(do.N) // the process calls again, as after a lost reply
		}
	}
}

// answer is the waiting call with a number, which waits no more.
func (w *appWorld) answer(n int64) appMessage {
	i := slices.IndexFunc(w.waiting, func(m appMessage) bool { return m.n == n })
	m := w.waiting[i]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	m.n = 0
	return m
}

// reply makes a reply of the call that it answers.
func (w *appWorld) reply(m appMessage, validFor time.Duration) {
	m.session, m.seq, m.validFor = w.session, w.app.Seq(), int64(validFor/appTick)
	if w.rule == forgetsValidity {
		m.validFor *= 3
	}
	m.tokens = make([]int64, len(w.keys))
	w.app.Each(func(key string, token int64, assigned bool) {
		if assigned {
			i, _ := strconv.Atoi(key[len("key-"):])
			m.tokens[i] = token
		}
	})
	if !w.gone(m.id) {
		w.replies = put(w.replies, m)
	}
}

// process is the one of an id; nil: it is gone.
func (w *appWorld) process(id string) *appProcess {
	for i := range w.procs {
		if w.procs[i].id == id {
			return &w.procs[i]
		}
	}
	return nil
}

func (w *appWorld) gone(id string) bool { return w.process(id) == nil }

// actions calls do with everything that can happen next. What do gets changes the world that it is given.
func (w *appWorld) actions(do func(name string, act func(*appWorld))) {
	fault := func(name string, act func(*appWorld)) {
		if w.faults > 0 {
			do("fault: "+name, func(w *appWorld) {
				w.faults--
				act(w)
			})
		}
	}
	do("tick", (*appWorld).tick)
	do("look", func(w *appWorld) { w.step(protocol.AppEvent{Kind: protocol.AppTick}) })
	if len(w.waiting) > 0 {
		do("waited", func(w *appWorld) { w.step(protocol.AppEvent{Kind: protocol.AppWaited}) })
	}
	if w.left() > 0 && w.acked < w.now {
		do("renew", func(w *appWorld) { w.acked = w.now })
	}
	if w.left() <= 0 {
		do("lose session", (*appWorld).loseSession)
	}
	fault("worker dies", (*appWorld).restartWorker)
	for i, k := range w.keys {
		if k.token == 0 && k.busy == 0 && w.left() > 0 { // the capacity may have been another a moment ago
			do("assign "+keyName(i), func(w *appWorld) { w.assign(i) })
		}
		if k.token != 0 && !k.taken {
			do("take "+keyName(i), func(w *appWorld) { w.take(i) })
		}
	}
	for i, p := range w.procs {
		do(p.id+" calls", func(w *appWorld) { w.call(&w.procs[i]) })
		fault(p.id+" dies", func(w *appWorld) { w.procs[i] = w.newProcess() })
		for k, token := range p.running {
			if token != 0 {
				do(p.id+" ends "+keyName(k), func(w *appWorld) { w.procs[i].running[k] = 0 })
			}
		}
	}
	if id := w.app.Application(); id != "" && (w.gone(id) || w.rule == endedTooEarly) {
		do("ended", func(w *appWorld) { w.step(protocol.AppEvent{Kind: protocol.AppEnded}) })
	}
	for i := range w.calls {
		do("call arrives", func(w *appWorld) { w.deliverCall(i, false) })
		fault("call arrives, and once more later", func(w *appWorld) { w.deliverCall(i, true) })
	}
	for i := range w.replies {
		do("reply arrives", func(w *appWorld) { w.deliverReply(i) })
	}
}

// put adds a message to those under way. The oldest is lost where there are too many.
func put(all []appMessage, m appMessage) []appMessage {
	if len(all) == appCalls {
		all = slices.Delete(all, 0, 1)
	}
	return append(all, m)
}

func (w *appWorld) tick() {
	w.now++
	for i := range w.keys {
		if k := &w.keys[i]; k.busy > 0 {
			if k.busy--; k.busy == 0 {
				k.old = 0
			}
		}
	}
}

func (w *appWorld) assign(i int) {
	w.token++
	w.keys[i].token = w.token
	w.step(protocol.AppEvent{Kind: protocol.AppAssign, Key: keyName(i), Token: w.token, More: true})
}

func (w *appWorld) take(i int) {
	w.keys[i].taken = true
	w.step(protocol.AppEvent{Kind: protocol.AppTake, Key: keyName(i), More: true})
}

func (w *appWorld) loseSession() {
	for i, k := range w.keys {
		if k.token != 0 && !k.taken {
			w.take(i)
		}
	}
	w.newSession()
}

// restartWorker is a worker that died, and another in its place.
func (w *appWorld) restartWorker() {
	remains := w.app.Remains(w.instant())
	if remains > appHard*appTick {
		w.fail("application %s was promised more than a successor in place waits for", w.app.Application())
	}
	for i, k := range w.keys {
		if k.token == 0 {
			continue
		}
		w.keys[i] = appWorldKey{busy: int64((remains + appTick - 1) / appTick), old: k.token}
		if w.keys[i].busy == 0 || w.rule == diesWithoutRemains {
			w.keys[i] = appWorldKey{}
		}
	}
	w.app, w.waiting = protocol.NewApp(), nil
	w.newSession()
}

func (w *appWorld) call(p *appProcess) {
	w.expire(p)
	w.outdate(p.id)
	p.called = true
	w.calls = put(w.calls, appMessage{
		id: p.id, session: p.session, seq: p.seq, sent: w.now, tokens: slices.Clone(p.running),
	})
}

// expire stops what is not valid any more, as a process does before anything else.
func (w *appWorld) expire(p *appProcess) {
	if w.now >= p.validTo {
		clear(p.running)
	}
}

// outdate marks what a process has to ignore from now on.
func (w *appWorld) outdate(id string) {
	for _, all := range [][]appMessage{w.calls, w.replies, w.waiting} {
		for i := range all {
			all[i].older = all[i].older || all[i].id == id
		}
	}
}

func (w *appWorld) deliverCall(i int, again bool) {
	m := w.calls[i]
	if !again {
		w.calls = slices.Delete(w.calls, i, i+1)
	}
	w.n++
	call := protocol.AppCall{
		N: w.n, ID: m.id, Session: m.session, Seq: m.seq, Ready: true, Running: map[string]int64{},
	}
	for k, token := range m.tokens {
		if token != 0 {
			call.Running[keyName(k)] = token
		}
	}
	m.n = call.N
	switch w.rule { //nolint:exhaustive // the others are broken elsewhere
	case anyCallReleases:
		call.Session, call.Seq = w.session, w.app.Seq()
	case seqWithoutSession:
		call.Session = w.session
	case newestWins:
		if w.app.Application() != m.id {
			w.step(protocol.AppEvent{Kind: protocol.AppEnded})
		}
	}
	w.waiting = append(w.waiting, m)
	w.step(protocol.AppEvent{Kind: protocol.AppCalled, Call: call})
}

func (w *appWorld) deliverReply(i int) {
	m := w.replies[i]
	w.replies = slices.Delete(w.replies, i, i+1)
	p := w.process(m.id)
	if p == nil || m.older && w.rule != obeysOlderReplies {
		return
	}
	w.outdate(p.id)
	p.called = false
	if p.session != m.session && w.rule != ignoresSession {
		clear(p.running)
		p.validTo = w.now
	}
	if w.rule != extendsWhatIsOver {
		w.expire(p)
	}
	from := m.sent
	if w.rule == countsFromArrival {
		from = w.now
	}
	p.session, p.seq, p.validTo = m.session, m.seq, max(p.validTo, from+m.validFor)
	w.expire(p)
	if w.now >= p.validTo {
		return
	}
	for k, token := range m.tokens {
		if token == 0 || p.running[k] != 0 {
			continue // not assigned; or an older run of it goes on still
		}
		p.running[k] = token
		w.starts++
	}
}

// round has each process stop what it has to, call, and hear the reply.
func (w *appWorld) round() {
	for i := range w.procs {
		p := &w.procs[i]
		clear(p.running)
		w.calls, w.replies = nil, nil
		w.call(p)
		w.deliverCall(0, false)
		w.step(protocol.AppEvent{Kind: protocol.AppWaited})
		if len(w.replies) > 0 {
			w.deliverReply(0)
		}
	}
}
