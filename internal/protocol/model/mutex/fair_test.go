package mutex_test

import (
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/test/search"
)

// recovery lets every fault end and everything go on in turn, and says what is wrong in the end. It is one schedule
// out of many, and so shows that a state is no dead end, not that every schedule leaves it.
type recovery struct {
	*setting
	good map[search.Digest]bool
	buf  []byte
}

// most is how many actions and seconds a state is given.
const (
	mostActions = 300
	mostSeconds = 4
)

func (r *recovery) check(s *state) string {
	w := world{setting: r.setting, state: *s}
	return r.recovers(&w)
}

// recovers lets w recover.
func (r *recovery) recovers(w *world) string {
	w.budget = [faultKinds]int8{}
	var chain []search.Digest
	seconds := w.time + mostSeconds
	for range mostActions {
		w.normal()
		r.buf = bytesOf(r.buf[:0], &w.state)
		d := search.DigestOf(r.buf)
		if r.good[d] {
			break
		}
		chain = append(chain, d)
		a, ok := w.next()
		switch {
		case ok:
			w.do(a)
		case w.time < seconds && !w.idle():
			w.do(action{kind: second})
			w.budget[passes] = 0
			continue
		case w.calm() != "":
			return w.calm()
		}
		if w.broken != "" {
			return w.broken
		}
		if !ok {
			break
		}
	}
	for _, d := range chain {
		r.good[d] = true
	}
	return ""
}

// idle: no call waits for anything.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.calls[:], func(c callState) bool { return c.phase == waiting })
}

// calm says what is wrong when nothing more happens by itself.
func (w *world) calm() string {
	if !w.idle() {
		return stuck
	}
	broken := ""
	w.store.Sessions(func(s string) {
		if !w.gone(s) {
			broken = ghost
		}
	})
	return broken
}

// next is what a world without faults does, one thing after the other; false: time must pass.
func (w *world) next() (action, bool) {
	order := []actionKind{strayLands, thaw, renew, kill, reopen, deliver, learn, meet, tick, look, release, detach}
	best, found := len(order), action{}
	w.each(func(a action) {
		if a.kind == kill && w.procs[a.p].up || a.kind == look && !w.notified(int(a.p)) {
			return
		}
		if n := slices.Index(order, a.kind); n >= 0 && n < best && (a.kind != tick || w.moves(a)) {
			best, found = n, a
		}
	})
	return found, best < len(order)
}

// notified says whether a process looks without being asked to: it may enter, another came before it since it looked,
// or the document names it and it does not wait. Others are not notified of changes here, though they look now and then
// where this is built.
func (w *world) notified(p int) bool {
	for c, call := range w.asks {
		if call.p == p && w.calls[c].phase == waiting {
			return w.store.Next == w.session(p) || w.passed(p, w.claim(c))
		}
	}
	return true
}

// passed says whether one is before the ticket of a process which the process does not know of.
func (w *world) passed(p int, claim string) bool {
	at, known := ticketOf(w.store, claim), w.procs[p].m.Doc
	strange := func(claim string) bool { return ticketOf(known, claim) < 0 && !holds(known, claim) }
	return at >= 0 && (slices.ContainsFunc(w.store.Queue[:at], func(t protocol.MutexTicket) bool {
		return strange(t.Claim)
	}) || slices.ContainsFunc(w.store.Holders, func(h protocol.MutexHolder) bool { return strange(h.Claim) }))
}

// moves says whether an action changes anything.
func (w *world) moves(a action) bool {
	to := world{setting: w.setting, state: w.state}
	to.do(a)
	to.normal()
	return string(bytesOf(nil, &to.state)) != string(bytesOf(nil, &w.state))
}
