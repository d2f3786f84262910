package model_test

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/protocol"
)

// The value kept with the first key, in the scenarios that have values. No one asks whether a lease is valid before the
// value is read or set: that only the token counts is the promise.

// newValue: a run of the key, or the next under a new token, has the value in hand. What its predecessor in the same
// replica wants still is on its way, and no one waits for it.
func (w *world) newValue(r, k int, token int64) {
	if !w.values || k != 0 {
		return
	}
	w.expireValue(r)
	rep := &w.replicas[r]
	rep.value, rep.setting = protocol.Value{Token: token}, 0
}

// expireValue: no one in r waits for an answer about the value any longer.
func (w *world) expireValue(r int) {
	for i := range w.messages {
		m := &w.messages[i]
		switch {
		case int(m.from) != r || m.kind != valueRead && m.kind != valueWrite:
		case m.landed:
			*m = message{}
		default:
			m.expired, m.prompt = true, false
		}
	}
}

func (w *world) valueActions(r int8, visit func(action)) {
	v := w.replicas[r].value
	switch {
	case v.Token == 0:
	case v.Op != protocol.NoValueOp:
		visit(action{kind: abandonValue, a: r})
	default:
		if w.left[getValue] > 0 {
			visit(action{kind: readValue, a: r})
		}
		if w.left[setValue] > 0 {
			visit(action{kind: changeValue, a: r})
		}
	}
}

// useValue is what a run wants of the value.
func (w *world) useValue(r int, kind actionKind) {
	rep := &w.replicas[r]
	switch kind {
	case readValue:
		w.stepValue(r, protocol.ValueEvent{Kind: protocol.ValueWanted, Op: protocol.GetValue})
	case changeValue:
		w.ghost.sets++
		rep.setting = w.ghost.sets
		w.stepValue(r, protocol.ValueEvent{Kind: protocol.ValueWanted, Op: protocol.SetValue})
	default: // abandonValue
		fenced := rep.value.Fenced
		w.stepValue(r, protocol.ValueEvent{Kind: protocol.ValueAbandoned})
		if w.weak == forgetsAbandonedSet {
			rep.value.Fenced = fenced
		}
		w.expireValue(r)
	}
}

func (w *world) stepValue(r int, ev protocol.ValueEvent) {
	v := &w.replicas[r].value
	op := v.Op
	if ev.Kind == protocol.ValueWanted {
		op = ev.Op
	}
	if ev.Kind == protocol.ValueRead && w.weak == setsOverLargerToken {
		ev.Writer = min(ev.Writer, v.Token)
	}
	var act protocol.ValueAction
	*v, act = v.Step(ev)
	if act.Kind == protocol.WriteDoc && op == protocol.GetValue && w.weak == readsWithoutToken {
		*v, act = v.Step(protocol.ValueEvent{Kind: protocol.ValueAnswer, Status: protocol.Applied})
	}
	switch act.Kind {
	case protocol.ReadDoc, protocol.WriteDoc:
		if !act.Repeat { // else it goes out at the next tick
			w.sendValue(r)
		}
	case protocol.ValueDone:
		w.valueDone(r, op)
	case protocol.ValueLost:
		w.say("%s learns that token %d may no longer use the value", name(r), v.Token)
	case protocol.NoValueAction:
	}
}

// sendValue sends what the machine waits for.
func (w *world) sendValue(r int) {
	rep := &w.replicas[r]
	v := rep.value
	switch {
	case v.Reading:
		w.send(message{kind: valueRead, from: int8(r)})
	case v.Sent:
		d := valueDoc{token: v.Token}
		if v.Op == protocol.SetValue {
			d.set = rep.setting
		}
		w.send(message{kind: valueWrite, from: int8(r), ifRev: v.IfRev, newRev: v.NewRev, value: d})
	}
}

// repeatValue sends again what was not answered.
func (w *world) repeatValue(r int) {
	for i := range w.messages {
		m := &w.messages[i]
		if int(m.from) == r && !m.expired && (m.kind == valueRead || m.kind == valueWrite) {
			return // it is still waited for
		}
	}
	w.sendValue(r)
}

// valueDone: a call returns.
func (w *world) valueDone(r int, op protocol.ValueOp) {
	rep := &w.replicas[r]
	if op == protocol.SetValue {
		w.say("%s learns that its set %d under token %d is kept", name(r), rep.setting, rep.value.Token)
		if w.ghost.kept&(1<<rep.setting) == 0 {
			w.fail("P8: set %d of the value is acknowledged, and has not landed", rep.setting)
		}
	} else {
		w.say("%s's read of the value under token %d returns", name(r), rep.value.Token)
	}
	w.ghost.valueToken = max(w.ghost.valueToken, rep.value.Token)
	for i := range w.messages { // what was abandoned before must not land after this
		m := &w.messages[i]
		m.overdue = m.overdue || m.kind == valueWrite && m.expired && m.value.token == rep.value.Token
	}
}

// landValue: a compare-and-set of the value's document.
func (w *world) landValue(m *message) {
	d := &w.store.value
	switch {
	case d.rev == m.ifRev, w.weak == setsUnconditioned:
		rev := max(m.newRev, d.rev+1)
		w.checkValue(m)
		*d = valueDoc{rev: rev, token: m.value.token, set: m.value.set}
		w.ghost.kept |= 1 << m.value.set
		m.status = protocol.Applied
		w.say("%s lands: revision %d", w.valueMessage(m), rev)
	case d.rev == m.newRev && d.token == m.value.token && d.set == m.value.set:
		m.status = protocol.Applied
	default:
		m.status = protocol.Refused
		w.say("%s is refused: revision %d is not %d", w.valueMessage(m), d.rev, m.ifRev)
	}
}

// checkValue holds a write of the value to what is promised, as it lands.
func (w *world) checkValue(m *message) {
	token := m.value.token
	switch {
	case token < w.ghost.valueToken:
		w.fail("P2: token %d writes the value after a call under token %d has returned", token, w.ghost.valueToken)
	case m.value.set > 0 && w.ghost.kept&(1<<m.value.set) != 0:
		w.fail("P2: set %d of the value lands twice", m.value.set)
	case m.overdue:
		w.fail("P2: a set that was abandoned lands after a later call under token %d has returned", token)
	}
}

func (w *world) answerValue(r int, m message, status protocol.Status) {
	if !w.replicas[r].alive {
		return
	}
	if m.kind == valueRead {
		w.stepValue(r, protocol.ValueEvent{
			Kind: protocol.ValueRead, OK: status != protocol.Unknown, Rev: m.value.rev, Writer: m.value.token,
		})
		return
	}
	if status == protocol.Unknown && w.weak == believesUnansweredSet {
		status = protocol.Applied
	}
	w.stepValue(r, protocol.ValueEvent{Kind: protocol.ValueAnswer, Status: status})
}

func (w *world) whatOfValue(a action) string {
	r := int(a.a)
	verb := map[actionKind]string{
		readValue: "reads the value", changeValue: "sets the value", abandonValue: "waits for the value no longer",
	}[a.kind]
	return fmt.Sprintf("%s %s under token %d", name(r), verb, w.replicas[r].value.Token)
}

func (w *world) valueMessage(m *message) string {
	switch {
	case m.kind == valueRead:
		return fmt.Sprintf("%s's read of the value", name(int(m.from)))
	case m.value.set > 0:
		return fmt.Sprintf("%s's set %d of the value under token %d", name(int(m.from)), m.value.set, m.value.token)
	}
	return fmt.Sprintf("%s's token %d in the value", name(int(m.from)), m.value.token)
}

// addValueTokens adds the tokens in and about the value to those of its key.
func (w *world) addValueTokens(k int, tokens *numbers) {
	if !w.values || k != 0 {
		return
	}
	tokens.add(&w.store.value.token)
	tokens.add(&w.ghost.valueToken)
	for r := range w.n {
		tokens.add(&w.replicas[r].value.Token)
	}
	for i := range w.messages {
		tokens.add(&w.messages[i].value.token)
	}
}

// normalValue brings the revisions of the value's document into their normal form.
func (w *world) normalValue() {
	revs := &w.revs
	revs.n = 0
	revs.add(&w.store.value.rev)
	for r := range w.n {
		v := &w.replicas[r].value
		if !v.Fenced && !v.Sent {
			v.Rev = 0 // it reads before it writes
		}
		revs.add(&v.Rev)
		revs.add(&v.IfRev)
		revs.add(&v.NewRev)
	}
	for i := range w.messages {
		m := &w.messages[i]
		if m.kind == valueRead || m.kind == valueWrite {
			revs.add(&m.value.rev)
			revs.add(&m.ifRev)
			revs.add(&m.newRev)
		}
	}
	revs.close()
}
