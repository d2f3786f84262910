package failover_test

import "fmt"

// do lets an action happen.
func (w *redisWorld) do(a dbAction) {
	if fault, ok := costs[a.kind]; ok {
		w.budget[fault]--
	}
	w.describe(a)
	if a.kind < actAsk {
		w.doNode(a)
	} else {
		w.doClient(a)
	}
	runs := 0
	for i := range w.clients {
		if w.clients[i].runs {
			runs++
		}
	}
	if runs > 1 {
		w.broken = fmt.Sprintf("P1: the key runs %d times at once", runs)
	}
}

func (w *redisWorld) doNode(a dbAction) {
	n := &w.forgetful.nodes[a.node]
	switch a.kind {
	case actTick:
		w.tick()
	case actPromote:
		w.promote(a.node)
	case actUnlink:
		n.follows = 0
	case actLink:
		w.attach(a.node, a.x)
	case actRestart:
		w.restart(a.node)
	case actReplicate:
		n.data = w.forgetful.nodes[n.follows-1].data
	case actVisit:
		w.visit(a.node, a.mask)
	case actOpen:
		n.data.met, n.data.gate = w.met(a.node), w.seen(n.id)
		n.data.high = w.now(a.node)
		w.acknowledge(a.node, a.mask)
	default:
	}
}

func (w *redisWorld) doClient(a dbAction) {
	c := &w.clients[a.p]
	switch a.kind {
	case actAsk:
		c.asked = 1
	case actLearn:
		w.learn(a.p, a.node)
	case actLook:
		w.look(a.p, a.node)
	case actBeat:
		w.heartbeat(a.p)
		w.exchange(a, ofSession)
	case actInspect:
		w.begin(a.p, ofSession, message{kind: inspect})
		w.exchange(a, ofSession)
	case actBury:
		w.begin(a.p, ofLock, message{kind: bury, other: a.x, cond: c.peers[a.x].heartbeat})
		w.exchange(a, ofLock)
	case actClaim:
		w.claim(a.p)
		w.exchange(a, ofLock)
	case actRelease:
		w.begin(a.p, ofLock, message{kind: free, cond: c.lockRev, next: max(c.lockRev+1, c.heard)})
		w.exchange(a, ofLock)
	case actEnd:
		c.runs = false
	case actHandBack:
		c.leaving, c.runs = true, false
	case actDie:
		*c = client{session: c.session}
	case actReopen:
		*c = client{
			on: true, session: w.freshSession(), heard: c.heard,
		}
	default:
		w.doOperation(a)
	}
}

// exchange carries what was begun as far as the action says.
func (w *redisWorld) exchange(a dbAction, slot int8) {
	op := &w.clients[a.p].ops[slot]
	if op.kind == noMessage {
		return
	}
	if a.prompt == sent {
		w.budget[slow]--
		return
	}
	w.land(a.p, slot, a.node)
	if a.prompt == answered {
		w.reply(a.p, slot, a.mask)
		return
	}
	quorum := false
	w.eachQuorum(a.node, w.waits(a.node, op.kind == renew, op.wrote), func(int8) { quorum = true })
	if quorum {
		w.budget[slow]--
	}
}

func (w *redisWorld) land(p, slot, node int8) {
	op := &w.clients[p].ops[slot]
	*op = w.execute(node, w.clients[p].says(op.message, w.lease[p]))
	op.may, op.waited = false, 0
	if w.without == waitedTwice {
		w.clients[p].since = min(w.clients[p].since, 1)
	}
}

// says is the message with what the client knows of the time that has passed.
func (c *client) says(m message, lease int8) message {
	m.may, m.waited = c.since > lease, max(0, c.since-1)
	return m
}

// visit is a script of the visitor, and its good reply.
func (w *redisWorld) visit(node, mask int8) {
	n, v := &w.forgetful.nodes[node], &w.visitor
	id := w.seen(n.id)
	if v.id != id {
		*v = visitor{id: id}
	}
	c := client{since: v.since}
	w.execute(node, c.says(message{kind: look, from: b, id: id}, w.lease[b]))
	w.acknowledge(node, mask)
	if w.without == waitedTwice {
		v.since = min(v.since, 1)
	}
	v.since = w.since(v.since, w.waited(&n.data, id))
}

// since is what a client knows of the time that has passed once a good reply has shown how long others have waited.
func (w *redisWorld) since(known, shown int8) int8 {
	if w.without == waitedTwice {
		shown = 0
	}
	return max(known, 1+shown)
}

// reply is a good reply: the replicas have what the master had.
func (w *redisWorld) reply(p, slot, mask int8) {
	w.confirm(&w.clients[p].ops[slot], mask)
	w.answer(p, int(slot))
}

// confirm is WAIT and the second look.
func (w *redisWorld) confirm(op *operation, mask int8) {
	w.acknowledge(op.at-1, mask)
	op.shown = w.waited(&w.forgetful.nodes[op.at-1].data, op.id)
}

// acknowledge gives replicas what their master has.
func (w *redisWorld) acknowledge(master, mask int8) {
	for i := range w.redisSetting.nodes {
		if mask>>i&1 == 1 {
			w.forgetful.nodes[i].data = w.forgetful.nodes[master].data
		}
	}
}

func (w *redisWorld) doOperation(a dbAction) {
	c := &w.clients[a.p]
	op := &c.ops[a.x]
	switch a.kind {
	case actLand:
		w.land(a.p, a.x, a.node)
	case actAgain:
		w.again(a.p, a.x)
	case actCopy:
		w.stray = c.says(op.message, w.lease[a.p])
	case actReply:
		if a.prompt == executed {
			w.budget[slow]--
			w.confirm(op, a.mask)
			op.good = true
			return
		}
		w.reply(a.p, a.x, a.mask)
	case actArrive:
		w.answer(a.p, int(a.x))
	case actStray:
		w.execute(a.node, w.stray)
		w.stray = message{}
	default:
	}
}

// again sends what was not answered once more: to whom it was sent before, or under another identity of the same
// lineage. A creation is sent once.
func (w *redisWorld) again(p, slot int8) {
	c := &w.clients[p]
	op := &c.ops[slot]
	n := w.forgetful.nodes[op.at-1]
	if n.master && w.seen(n.id) == op.id {
		w.budget[lostReply]--
	}
	m := op.message
	if m.kind == renew && m.cond == 0 {
		w.lose(p)
		return
	}
	*op = operation{message: m}
	if m.id.sameLineage(c.id) || w.without == repeatsElsewhere {
		op.id = c.id
	}
}
