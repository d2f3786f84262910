package failover_test

// valid says whether a run may start now.
func (w *redisWorld) valid(p int8) bool {
	c := &w.clients[p]
	return c.on && !c.lost && c.heartbeat > 0 && c.renewed < w.run[p]
}

// learn takes the identity that a master shows, whichever it is.
func (w *redisWorld) learn(p, node int8) {
	c := &w.clients[p]
	c.id, c.since = w.seen(w.forgetful.nodes[node].id), 0
	if w.without == gateFromSending {
		c.since = c.asked
	}
	c.asked = 0
	for i := range c.ops {
		op := &c.ops[i]
		waits := op.kind != noMessage && op.at == 0
		if waits && (op.id.sameLineage(c.id) || w.without == repeatsElsewhere) {
			op.id = c.id // the copies before are refused from now on
		}
	}
}

// begin puts an operation under way.
func (w *redisWorld) begin(p int8, slot int, m message) {
	c := &w.clients[p]
	m.from, m.session, m.id = p, c.session, c.id
	c.ops[slot] = operation{message: m}
}

// heartbeat begins the next heartbeat, or the one under way again.
func (w *redisWorld) heartbeat(p int8) {
	c := &w.clients[p]
	if !c.pending {
		c.pending, c.firstAt = true, 0
	}
	w.begin(p, ofSession, message{kind: renew, cond: c.heartbeat})
}

// wants says whether a heartbeat of the client can matter: it holds the lock, would claim it, or may open the gate.
func (w *redisWorld) wants(p int8) bool {
	c := &w.clients[p]
	return c.mine || c.runs || c.pending || c.heartbeat == 0 || w.free(p) || w.awaited(c.id, c.since)
}

// awaited says whether a master of this identity has its gate closed, and does not know how long somebody has waited.
func (w *redisWorld) awaited(id identity, since int8) bool {
	for i := range w.redisSetting.nodes {
		n := &w.forgetful.nodes[i]
		if n.master && w.seen(n.id) == id && n.data.gate != id && since-1 > w.waited(&n.data, id) {
			return true
		}
	}
	return false
}

// free says whether the client believes that the lock is.
func (w *redisWorld) free(p int8) bool {
	c := &w.clients[p]
	return c.cached && (c.owner == 0 || c.owner == c.session+1 || c.peers[c.owner-1].dead)
}

// claimable says whether the client believes that it may claim the lock.
func (w *redisWorld) claimable(p int8) bool {
	c := &w.clients[p]
	current := c.course == c.id.lineage || w.without == repeatsElsewhere
	if !w.valid(p) || c.course == 0 || !current || c.leaving {
		return false
	}
	if c.mine {
		return !c.runs
	}
	return w.free(p)
}

// claim begins the claim of the lock, as it is known.
func (w *redisWorld) claim(p int8) {
	c := &w.clients[p]
	cond := c.rev
	if c.mine {
		cond = c.lockRev
	}
	if c.mine && w.without == resumesAtOnce {
		c.runs = true
		return
	}
	w.begin(p, ofLock, message{kind: own, cond: cond, next: max(cond+1, c.heard)})
}

// look lists the sessions and the lock at a master, unconfirmed.
func (w *redisWorld) look(p, node int8) {
	c, d := &w.clients[p], &w.forgetful.nodes[node].data
	for i := range d.sessions {
		doc, q := d.sessions[i], &c.peers[i]
		if int8(i) == c.session || doc.is == docAbsent || q.dead {
			continue
		}
		if !q.known || q.heartbeat != doc.heartbeat {
			q.age = 0
		}
		q.known, q.heartbeat, q.dead = true, doc.heartbeat, doc.is == docDead
		if q.dead {
			q.age, q.heartbeat = 0, 0
		}
	}
	c.cached, c.owner, c.rev = true, d.owner, d.rev
	c.hear(w.now(node))
}

func (c *client) hear(clock int8) { c.heard = max(c.heard, clock) }

// answer takes a good reply to an operation.
func (w *redisWorld) answer(p int8, slot int) {
	c := &w.clients[p]
	op := c.ops[slot]
	c.ops[slot] = operation{}
	if op.id == c.id {
		c.since = min(w.since(c.since, op.shown+op.age), w.lease[p]+1)
	}
	c.hear(w.now(op.at - 1))
	if op.id.lineage != c.course {
		w.change(p, op.id.lineage)
		if w.without != repeatsElsewhere || op.kind != own {
			return // what it says belongs to a course that was not known yet
		}
	}
	switch op.kind {
	case renew:
		w.renewedBy(p, op)
	case inspect:
		if c.audit {
			w.compare(p, op)
		}
	case bury:
		if op.res == applied {
			c.peers[op.other] = sighted{known: true, dead: true}
		} else {
			c.peers[op.other] = sighted{}
		}
	case own:
		w.claimedBy(p, op)
	case free:
		if op.res == applied || op.res == refused {
			c.mine, c.leaving, c.cached = false, false, c.cached && op.res == applied
		}
	case noMessage, look:
	}
}

// change forgets what belonged to another course of writes. A session without a heartbeat has nothing to compare.
func (w *redisWorld) change(p, lineage int8) {
	c := &w.clients[p]
	c.course, c.cached, c.owner, c.rev = lineage, false, 0, 0
	c.audit = w.without != noAudit && (c.heartbeat > 0 || c.pending)
	for i := range c.peers {
		if w.without != remembersDeaths || !c.peers[i].dead {
			c.peers[i] = sighted{}
		}
	}
	for i := range c.ops {
		if c.ops[i].kind != noMessage && w.without != repeatsElsewhere {
			c.ops[i] = operation{}
		}
	}
}

func (w *redisWorld) renewedBy(p int8, op operation) {
	c := &w.clients[p]
	switch {
	case c.audit || op.res == closed:
	case op.res == applied && c.pending:
		c.heartbeat, c.renewed, c.pending, c.firstAt = c.heartbeat+1, c.firstAt, false, 0
	case op.res == refused:
		w.lose(p)
	}
}

// compare holds what is held against what a read found in a new course.
func (w *redisWorld) compare(p int8, op operation) {
	c := &w.clients[p]
	if (c.mine || c.runs) && (op.owner != c.session+1 || op.rev != c.lockRev) && w.without != auditsSessionOnly {
		c.mine, c.leaving = false, false
	}
	switch {
	case op.found == sessionDoc{docAlive, c.heartbeat}:
	case c.pending && op.found == sessionDoc{docAlive, c.heartbeat + 1}:
		c.heartbeat, c.renewed, c.pending, c.firstAt = c.heartbeat+1, min(c.renewed, c.firstAt), false, 0
	default:
		w.lose(p)
		return
	}
	if c.runs && !c.mine {
		return // it ends first
	}
	c.audit = false
}

func (w *redisWorld) lose(p int8) {
	c := &w.clients[p]
	c.lost, c.mine, c.leaving, c.audit, c.pending, c.firstAt = true, false, false, false, false, 0
	c.ops = [2]operation{}
}

func (w *redisWorld) claimedBy(p int8, op operation) {
	c := &w.clients[p]
	switch op.res {
	case applied:
		w.start(p, op.next)
	case refused:
		c.mine, c.cached = false, false
	case closed: // the same again
		c.ops[ofLock] = operation{message: op.message}
	default:
	}
}

// start starts the run under a token, if the lease is valid.
func (w *redisWorld) start(p, token int8) {
	c := &w.clients[p]
	c.mine, c.lockRev, c.cached, c.owner, c.rev = true, token, false, 0, 0
	c.peers = [maxSessions]sighted{}
	if !w.valid(p) {
		return
	}
	if w.clocked && token <= w.highest {
		w.broken = "P2: a start under a token that is not larger than all before"
	}
	if w.clocked {
		w.highest = max(w.highest, token)
	}
	c.runs = true
	w.say("%s runs the key under token %d", clientName(p), token)
}

// tick lets a third of T pass.
func (w *redisWorld) tick() {
	if v := &w.visitor; v.since > 0 {
		v.since = min(v.since+1, w.lease[b]+1)
	}
	for p := range w.clients {
		c := &w.clients[p]
		if !c.on {
			continue
		}
		up := func(v *int8, most int8) { *v = min(*v+1, most) }
		up(&c.renewed, w.run[p])
		if c.renewed >= w.run[p] && c.runs {
			c.runs = false
			w.say("the run of %s is gone: X has come", clientName(int8(p)))
		}
		if c.pending {
			up(&c.firstAt, w.run[p])
		}
		if c.since > 0 {
			up(&c.since, w.lease[p]+1)
		}
		if c.asked > 0 {
			up(&c.asked, w.lease[p]+1)
		}
		for i := range c.ops {
			if w.without == waitedFromSending && c.ops[i].kind != noMessage {
				up(&c.ops[i].age, w.lease[p])
			}
		}
		for i := range c.peers {
			if q := &c.peers[i]; q.known && !q.dead {
				up(&q.age, w.longest())
			}
		}
	}
	if !w.clocked {
		return
	}
	newest := w.clock[0]
	w.lockRevs(func(v *int8) { newest = max(newest, *v) })
	copy(w.clock[1:], w.clock[:])
	w.clock[0] = newest + 2
}

func clientName(p int8) string { return string(rune('A' + p)) }
