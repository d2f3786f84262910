package mutex_test

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/protocol"
)

// describe writes an action down.
func (w *world) describe(a action) {
	if w.say == nil {
		return
	}
	p, c := string(rune('A'+a.p)), string(rune('a'+a.c))
	switch a.kind {
	case ask:
		w.say("%s: call %s asks%s", p, c, asked(w.asks[a.c].ask))
	case giveUp:
		w.say("%s: call %s gives up", p, c)
	case release:
		w.say("%s: call %s is done", p, c)
	case detach:
		w.say("%s: call %s detaches for a second", p, c)
	case deliver:
		w.say("%s: %s is answered", p, w.request(a.p))
	case land:
		w.say("%s: %s happens, its answer takes its time", p, w.request(a.p))
	case loseAnswer:
		w.say("%s: %s happens, its answer is lost", p, w.request(a.p))
	case loseRequest:
		w.say("%s: %s is lost", p, w.request(a.p))
	case double:
		w.say("%s: %s is doubled", p, w.request(a.p))
	case strayLands:
		w.say("the late copy of a write of %s arrives", w.strays[a.n].session)
	case learn:
		w.say("%s learns that session %s is dead", p, sessionName(int(a.c), a.n))
	case meet:
		w.say("%s learns that session %s is not known to be dead", p, sessionName(int(a.c), a.n))
	case kill:
		w.say("session %s is marked dead", w.session(int(a.p)))
	case second:
		w.say("a second passes")
	case bury:
		w.say("somebody who does not use it takes dead sessions out of the document")
	case remove:
		w.say("the document is deleted, since no one uses it")
	default:
		w.say("%s %s", p, map[actionKind]string{
			tick: "goes on", look: "looks", stale: "is shown an old list", freeze: "freezes", thaw: "thaws",
			expire: "has no valid lease any more", renew: "has a valid lease again", die: "dies",
			dieSent: "dies, and what it has sent goes on", reopen: "opens another session",
		}[a.kind])
	}
}

func asked(a protocol.MutexRequest) string {
	text := ""
	if a.Limit == 0 {
		text = " to write"
	}
	if a.Shared {
		text = " to read"
	}
	if a.Unfair {
		text += ", unfair"
	}
	if a.AtLeast > 0 {
		text += ", for a second at least"
	}
	return text
}

// request says what a process has under way.
func (w *world) request(p int8) string {
	m := w.procs[p].out
	if m.kind == reads {
		return "the read"
	}
	if m.landed {
		return "the write"
	}
	text := "the write ["
	for i, h := range m.doc.Holders {
		text += fmt.Sprintf("%s%c holds", space(i), h.Claim[0])
	}
	for i, t := range m.doc.Queue {
		text += fmt.Sprintf("%s%c waits", space(i+len(m.doc.Holders)), t.Claim[0])
	}
	return text + "]"
}

func space(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}
