package failover_test

import (
	"math/bits"
	"slices"
)

// dbFault is something that goes wrong, a bounded number of times.
type dbFault int8

const (
	failover  dbFault = iota // a replica is promoted
	unlink                   // a replica loses its master
	relink                   // a node begins to follow a master
	oldFile                  // a node restarts with what it once saved
	lostReply                // the answer to a script is lost
	slow                     // a script or its answer is
	copies                   // a copy of a script stays on its way
	catchUp                  // a replica takes writes that no one waits for
	handBack                 // the run ends in order
	dies                     // a process does, with its run
	reopen                   // a process opens another session
	opening                  // an operator opens the gate of a new database
	visits                   // a process comes, or looks again
	faultKinds
)

type dbActionKind int8

const (
	actTick dbActionKind = iota
	actPromote
	actUnlink
	actLink
	actRestart
	actReplicate
	actOpen
	actVisit
	actAsk
	actLearn
	actLook
	actBeat
	actInspect
	actBury
	actClaim
	actRelease
	actEnd
	actHandBack
	actDie
	actReopen
	actLand
	actAgain
	actCopy
	actReply
	actArrive
	actStray
)

// dbAction is one thing that may happen: who, where, which.
type dbAction struct {
	kind       dbActionKind
	p, node, x int8
	prompt     promptness
	mask       int8 // the replicas that acknowledge
}

// promptness is how far an operation gets at once.
type promptness int8

const (
	answered promptness = iota // there and back
	executed                   // it arrives, and its answer takes time
	sent                       // it takes time to arrive
)

// costs are what an action takes of the budget.
var costs = map[dbActionKind]dbFault{
	actPromote: failover, actUnlink: unlink, actLink: relink, actRestart: oldFile, actHandBack: handBack, actDie: dies,
	actReopen: reopen, actCopy: copies, actReplicate: catchUp, actOpen: opening, actVisit: visits,
}

// each calls do for everything that may happen.
func (w *redisWorld) each(do func(dbAction)) {
	try := func(a dbAction) {
		if fault, ok := costs[a.kind]; !ok || w.budget[fault] > 0 {
			do(a)
		}
	}
	do(dbAction{kind: actTick})
	for i := range int8(w.redisSetting.nodes) {
		w.eachOfNode(i, try)
	}
	for p := range int8(maxClients) {
		if w.clients[p].on || w.clients[p].runs {
			w.eachOfClient(p, try)
		}
	}
}

func (w *redisWorld) eachOfNode(i int8, try func(dbAction)) {
	n := &w.forgetful.nodes[i]
	if !n.master {
		try(dbAction{kind: actPromote, node: i})
	}
	if n.follows > 0 {
		try(dbAction{kind: actUnlink, node: i})
		if n.data != w.forgetful.nodes[n.follows-1].data {
			try(dbAction{kind: actReplicate, node: i})
		}
	}
	try(dbAction{kind: actRestart, node: i})
	for m := range int8(w.redisSetting.nodes) {
		if m != i && w.forgetful.nodes[m].master && n.follows != m+1 {
			try(dbAction{kind: actLink, node: i, x: m})
		}
	}
	if n.master && n.data.isNew() && (!w.inUse() || w.without == opensInUse) {
		w.eachQuorum(i, w.waits(i, false, true), func(mask int8) {
			try(dbAction{kind: actOpen, node: i, mask: mask})
		})
	}
	if n.master && w.visiting(i) {
		w.eachQuorum(i, w.waits(i, false, true), func(mask int8) {
			try(dbAction{kind: actVisit, node: i, mask: mask})
		})
	}
	if w.stray.kind != noMessage && w.takes(i, w.stray.id) {
		try(dbAction{kind: actStray, node: i})
	}
}

// visiting says whether a script of the visitor can change what it knows of a node, or what the node holds.
func (w *redisWorld) visiting(node int8) bool {
	n, v := &w.forgetful.nodes[node], &w.visitor
	id := w.seen(n.id)
	return v.id != id || v.since-1 != w.waited(&n.data, id) && n.data.gate != id
}

func (w *redisWorld) eachOfClient(p int8, try func(dbAction)) {
	c := &w.clients[p]
	if c.runs && !c.mine {
		try(dbAction{kind: actEnd, p: p})
	}
	if c.lost {
		if !c.runs && w.freshSession() >= 0 {
			try(dbAction{kind: actReopen, p: p})
		}
		return
	}
	try(dbAction{kind: actDie, p: p})
	if c.runs && c.mine && !c.leaving {
		try(dbAction{kind: actHandBack, p: p})
	}
	w.eachLook(p, try)
	if c.ops[ofSession].kind == noMessage && c.id.lineage != 0 {
		switch {
		case c.course != c.id.lineage || c.audit:
			w.eachPromptness(dbAction{kind: actInspect, p: p}, try)
		case w.wants(p) && (c.heartbeat == 0 || c.pending || c.renewed > 0):
			w.eachPromptness(dbAction{kind: actBeat, p: p}, try)
		}
	}
	if c.ops[ofLock].kind == noMessage && c.course == c.id.lineage && c.course != 0 {
		for i := range int8(maxSessions) {
			if q := c.peers[i]; q.known && !q.dead && q.age >= w.longest() && c.cached && c.owner == i+1 &&
				i != c.session {
				w.eachPromptness(dbAction{kind: actBury, p: p, x: i}, try)
			}
		}
		if w.claimable(p) {
			w.eachPromptness(dbAction{kind: actClaim, p: p}, try)
		}
		if c.leaving && c.mine && !c.runs && !c.audit {
			w.eachPromptness(dbAction{kind: actRelease, p: p}, try)
		}
	}
	w.eachAnswer(p, try)
}

func (w *redisWorld) eachLook(p int8, try func(dbAction)) {
	c := &w.clients[p]
	if w.without == gateFromSending && c.asked == 0 {
		try(dbAction{kind: actAsk, p: p})
	}
	for i := range int8(w.redisSetting.nodes) {
		n := &w.forgetful.nodes[i]
		if !n.master {
			continue
		}
		if w.seen(n.id) != c.id && (w.without != gateFromSending || c.asked > 0) {
			try(dbAction{kind: actLearn, p: p, node: i})
		}
		here := w.seen(n.id) == c.id && c.course == c.id.lineage || w.without == listsAnywhere
		if c.course != 0 && !c.mine && !c.runs && !w.free(p) && here {
			try(dbAction{kind: actLook, p: p, node: i})
		}
	}
}

// eachPromptness is how far an operation may get at once.
func (w *redisWorld) eachPromptness(a dbAction, try func(dbAction)) {
	id := w.clients[a.p].id
	if w.budget[slow] > 0 {
		a.prompt = sent
		try(a)
	}
	for i := range int8(w.redisSetting.nodes) {
		if !w.takes(i, id) {
			continue
		}
		a.node = i
		quorum := false
		w.eachQuorum(i, w.waits(i, a.kind == actBeat, true), func(mask int8) {
			quorum = true
			a.prompt, a.mask = answered, mask
			try(a)
		})
		if !quorum || w.budget[slow] > 0 {
			a.prompt, a.mask = executed, 0
			try(a)
		}
	}
}

// eachAnswer is what may become of a client's operations that take time.
func (w *redisWorld) eachAnswer(p int8, try func(dbAction)) {
	for slot := range int8(2) {
		op := &w.clients[p].ops[slot]
		switch {
		case op.kind == noMessage:
		case op.good:
			try(dbAction{kind: actArrive, p: p, x: slot})
		case op.at == 0:
			for i := range int8(w.redisSetting.nodes) {
				if w.takes(i, op.id) {
					try(dbAction{kind: actLand, p: p, node: i, x: slot})
				}
			}
			if w.stray.kind == noMessage {
				try(dbAction{kind: actCopy, p: p, x: slot})
			}
		default:
			w.eachReply(p, slot, try)
		}
	}
}

// waits is how many replicas a reply of a node waits for: so many that they are, with it, a majority of any N nodes of
// those that it has met.
func (w *redisWorld) waits(node int8, heartbeat, wrote bool) int {
	if w.without == noWait && heartbeat || !wrote {
		return 0
	}
	k, met := w.configured/2, bits.OnesCount8(w.met(node))
	switch w.without {
	case countsNoNodes, acksOfNodes:
		return k
	case acksOfMajority:
		return max(k, met/2)
	default:
		return max(k, met-k-1)
	}
}

// eachQuorum calls do for each set of so many replicas of a master.
func (w *redisWorld) eachQuorum(node int8, wait int, do func(mask int8)) {
	var of uint8
	for i := range w.redisSetting.nodes {
		if w.forgetful.nodes[i].follows == node+1 {
			of |= 1 << i
		}
	}
	for mask := range uint8(1 << w.redisSetting.nodes) {
		if bits.OnesCount8(mask) == wait && mask&of == mask {
			do(int8(mask))
		}
	}
}

// eachReply is how a script that was executed may be answered: by each quorum of replicas, or not at all.
func (w *redisWorld) eachReply(p, slot int8, try func(dbAction)) {
	op := &w.clients[p].ops[slot]
	n := &w.forgetful.nodes[op.at-1]
	same := n.master && (w.seen(n.id) == op.id || w.without == noSecondLook || w.without == identityOnce)
	if !same || w.budget[lostReply] > 0 {
		try(dbAction{kind: actAgain, p: p, x: slot})
	}
	if !same {
		return
	}
	w.eachQuorum(op.at-1, w.waits(op.at-1, op.kind == renew, op.wrote), func(mask int8) {
		try(dbAction{kind: actReply, p: p, mask: mask, x: slot})
		if w.budget[slow] > 0 && op.kind == own {
			try(dbAction{kind: actReply, p: p, mask: mask, x: slot, prompt: executed})
		}
	})
}

// longest is the largest T of all clients: sessions say theirs.
func (w *redisWorld) longest() int8 { return slices.Max(w.lease[:]) }

func (w *redisWorld) freshSession() int8 {
	last := int8(0)
	for _, c := range w.clients {
		last = max(last, c.session)
	}
	if last+1 >= maxSessions {
		return -1
	}
	return last + 1
}
