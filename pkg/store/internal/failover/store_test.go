package failover_test

import "math/bits"

// redisRule is a rule left out.
type redisRule int8

const (
	allRules redisRule = iota
	noWait
	writesNothing
	noSecondLook
	identityOnce
	noSyncCounters
	fullSyncsOnly
	noGate
	gateFromSending
	heartbeatsOpen
	remembersDeaths
	noAudit
	auditsSessionOnly
	resumesAtOnce
	repeatsElsewhere
	startsFoundClaim
	listsAnywhere
	twoLeases
	countsNoNodes
	forgetsNodes
	countsAtOnce
	acksOfNodes
	acksOfMajority
	noHighMark
	opensInUse
	waitedAnywhere
	waitedTwice
	waitedFromSending
)

// redisWorld is a state in which something is about to happen.
type redisWorld struct {
	*redisSetting
	forgetful
	broken string
	log    func(format string, args ...any)
}

// redisSetting is what does not change.
type redisSetting struct {
	nodes      int              // there are
	configured int              // how many nodes the URI names
	lag        [maxNodes]int8   // by how many ticks a node's clock is behind
	lease      [maxClients]int8 // T of each client, in ticks
	run        [maxClients]int8 // and X
	disk       dataset          // what every node finds that restarts from an old file
	clocked    bool             // clocks go on, and what hangs on them is looked at; else revisions count alone
	fresh      bool             // the database is new, and no client has used it
	without    redisRule
}

func (w *redisWorld) say(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// seen is an identity as the adapter compares it.
func (w *redisWorld) seen(id identity) identity {
	switch w.without {
	case noSyncCounters:
		id.full, id.partial = 0, 0
	case fullSyncsOnly:
		id.partial = 0
	default:
	}
	return id
}

// now is the clock of a node.
func (w *redisWorld) now(node int8) int8 { return w.clock[w.lag[node]] }

// connected is a master and those that follow it.
func (w *redisWorld) connected(node int8) uint8 {
	all := uint8(1) << node
	for i := range w.redisSetting.nodes {
		if w.forgetful.nodes[i].follows == node+1 {
			all |= 1 << i
		}
	}
	return all
}

// tooMany says whether more nodes are connected than there may be.
func (w *redisWorld) tooMany(node int8) bool {
	return bits.OnesCount8(w.connected(node)) > w.configured && w.without != countsNoNodes
}

// met are the nodes that a node knows of once it has run a script.
func (w *redisWorld) met(node int8) uint8 {
	before := w.forgetful.nodes[node].data.met
	if w.without == forgetsNodes || w.without == countsAtOnce && !w.tooMany(node) {
		return before
	}
	return before | w.connected(node)
}

// shut says whether more nodes were met than there may be.
func (w *redisWorld) shut(d *dataset) bool {
	return bits.OnesCount8(d.met) > w.configured && w.without != countsNoNodes
}

// takes says whether a node executes a script that expects an identity.
func (w *redisWorld) takes(node int8, expected identity) bool {
	n := &w.forgetful.nodes[node]
	return n.master && (w.seen(n.id) == expected || w.without == identityOnce)
}

// execute runs a script at a node that takes it.
func (w *redisWorld) execute(node int8, m message) operation {
	op := operation{message: m, at: node + 1, wrote: true}
	n := &w.forgetful.nodes[node]
	d := &n.data
	before := *d
	d.met = w.met(node)
	if w.tooMany(node) {
		op.res = closed
		return op
	}
	s := &d.sessions[m.session]
	switch m.kind {
	case look:
		w.open(node, m)
		op.res = shown
	case renew:
		w.open(node, m)
		op.res = refused
		switch {
		case m.cond == 0 && s.is == docAbsent, m.cond > 0 && *s == sessionDoc{docAlive, m.cond}:
			*s, op.res = sessionDoc{docAlive, m.cond + 1}, applied
		case *s == sessionDoc{docAlive, m.cond + 1}:
			op.res = applied
		}
	case bury:
		o := &d.sessions[m.other]
		switch {
		case o.is == docDead:
			op.res = applied
		case o.is == docAlive && o.heartbeat == m.cond:
			o.is, op.res = docDead, applied
		default:
			op.res = refused
		}
	case own:
		op.res = w.take(node, m)
	case free:
		op.res = refused
		if d.rev == m.cond {
			d.owner, d.rev, op.res = 0, m.next, applied
		} else if d.rev == m.next && d.owner == 0 {
			op.res = applied
		}
	case inspect:
		op.res = shown
	case noMessage:
	}
	op.found, op.owner, op.rev = *s, d.owner, d.rev
	op.wrote = w.without != writesNothing || *d != before
	return op
}

// take is the script's part for a change that makes its writer owner.
func (w *redisWorld) take(node int8, m message) result {
	n := &w.forgetful.nodes[node]
	d := &n.data
	if w.without == startsFoundClaim && d.rev == m.next && d.owner == m.session+1 {
		return applied
	}
	switch {
	case !w.open(node, m), w.shut(d):
		return closed
	case w.clocked && m.next <= d.high && w.without != noHighMark:
		return refused
	case d.rev == m.next && d.owner == m.session+1:
		return applied
	case d.rev != m.cond:
		return refused
	}
	d.owner, d.rev = m.session+1, m.next
	return applied
}

// open opens the gate where it is closed and the sender may, with a heartbeat as well as with a claim. It says whether
// the gate is open then.
func (w *redisWorld) open(node int8, m message) bool {
	n := &w.forgetful.nodes[node]
	d, id := &n.data, w.seen(n.id)
	if d.gate == id || w.without == noGate {
		return true
	}
	w.keep(d, id, m.waited)
	may := m.may || m.kind == renew && w.without == heartbeatsOpen ||
		w.without == waitedTwice && w.waited(d, id) >= w.lease[m.from]
	if !may || w.shut(d) {
		return false
	}
	d.gate = id
	if w.clocked {
		d.high = max(d.high, w.now(node))
	}
	return true
}

// keep has a node hold for how long good replies have come from it.
func (w *redisWorld) keep(d *dataset, id identity, waited int8) {
	switch {
	case w.without == waitedTwice && d.under == id:
		d.waited += waited
	case waited > w.waited(d, id):
		d.waited = waited
	default:
		return
	}
	d.under = id
}

// waited is for how many ticks good replies have come under an identity, as a node holds it.
func (w *redisWorld) waited(d *dataset, id identity) int8 {
	if d.under != id && w.without != waitedAnywhere {
		return 0
	}
	return d.waited
}

// isNew says that nothing was kept here, and that the gate was never open.
func (d *dataset) isNew() bool { return *d == dataset{met: d.met, under: d.under, waited: d.waited} }

// inUse says whether a client runs the key, or may yet find that it has claimed it.
func (w *redisWorld) inUse() bool {
	for i := range w.clients {
		if c := &w.clients[i]; c.runs || c.mine || c.ops[ofLock].kind == own {
			return true
		}
	}
	return w.stray.kind == own
}

// promote makes a node a master, with what it holds.
func (w *redisWorld) promote(node int8) {
	n := &w.forgetful.nodes[node]
	n.master, n.follows = true, 0
	n.id.lineage = w.freshLineage()
	n.stream = n.id.lineage
}

func (w *redisWorld) freshLineage() int8 {
	last := int8(0)
	for i := range w.forgetful.nodes {
		last = max(last, w.forgetful.nodes[i].id.lineage)
	}
	return last + 1
}

// attach lets a node follow a master: from where it had left off, or from the beginning.
func (w *redisWorld) attach(node, master int8) {
	n, m := &w.forgetful.nodes[node], &w.forgetful.nodes[master]
	if n.stream == m.id.lineage {
		m.id.partial++
	} else {
		m.id.full++
	}
	n.master, n.follows, n.stream, n.data = false, master+1, m.stream, m.data
}

// restart lets a node begin again with an old file.
func (w *redisWorld) restart(node int8) {
	n := &w.forgetful.nodes[node]
	n.data, n.follows = w.disk, 0
	if !n.master {
		n.stream = 1
		return
	}
	w.promote(node)
	n.id.full, n.id.partial = 0, 0
	for i := range w.forgetful.nodes {
		if r := &w.forgetful.nodes[i]; r.follows == node+1 {
			r.follows = 0
		}
	}
}
