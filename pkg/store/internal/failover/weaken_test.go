package failover_test

import "slices"

// weak is a rule left out, a store in which that shows, and the promise that then fails.
type weak struct {
	name    string
	rule    string
	by      redisRule
	setting redisSetting
	left    map[dbFault]int8
	before  []dbAction // what has happened when the search begins
	breaks  string
	unkept  bool // with all rules this is not promised to end well
}

func clocked(s *redisSetting)   { s.clocked, s.lag[1], s.lag[2] = true, 2, 2 }
func longLease(s *redisSetting) { s.lease[0], s.run[0] = 6, 5 }
func fourNodes(s *redisSetting) { s.nodes = 4 }
func quarters(s *redisSetting) {
	for p := range maxClients {
		s.lease[p], s.run[p] = leaseTicks+1, runTicks+1
	}
}
func fiveNodes(s *redisSetting) { s.nodes = 5 }

// The nodes, and sets of them, of the scenarios that a search may begin with.
const (
	oldMaster, newMaster, other = 0, 1, 2
	byNew, byOther              = 1 << newMaster, 1 << other
	a, b                        = 0, 1
)

func steps(parts ...[]dbAction) []dbAction { return slices.Concat(parts...) }

func on(kind dbActionKind, p, node, mask int8) []dbAction {
	return []dbAction{{kind: kind, p: p, node: node, mask: mask}}
}

func late(kind dbActionKind, p int8, how promptness) []dbAction {
	return []dbAction{{kind: kind, p: p, node: oldMaster, prompt: how}}
}

func ticks(n int) []dbAction { return slices.Repeat([]dbAction{{kind: actTick}}, n) }

// takeOver is a failover: one replica is promoted, and the other follows it.
func takeOver() []dbAction {
	return steps([]dbAction{{kind: actPromote, node: newMaster}},
		[]dbAction{{kind: actLink, node: other, x: newMaster}})
}

// moves is a client that finds the new master and compares what it holds.
func moves(p int8) []dbAction {
	return steps(
		on(actLearn, p, newMaster, 0), on(actInspect, p, newMaster, byOther), on(actInspect, p, newMaster, byOther),
	)
}

// claimedLate is A, which has released the key and claimed it again. The node that is promoted next misses the claim.
func claimedLate() []dbAction {
	return steps(
		on(actHandBack, a, 0, 0), on(actRelease, a, oldMaster, byNew), on(actLook, a, oldMaster, 0),
		on(actClaim, a, oldMaster, byOther),
	)
}

// landedLate is A, which has released the key and claimed it again, and has no answer yet. No replica has that claim.
func landedLate() []dbAction {
	return steps(
		on(actHandBack, a, 0, 0), on(actRelease, a, oldMaster, byNew), on(actLook, a, oldMaster, 0),
		late(actClaim, a, executed),
	)
}

// divided is a failover of which only B knows yet.
func divided() []dbAction {
	return steps(takeOver(), moves(b), on(actLook, b, newMaster, 0))
}

// visited is a failover that one of those who come and go has found.
func visited() []dbAction {
	return steps(claimedLate(), takeOver(), on(actVisit, 0, newMaster, byOther))
}

// weaknesses are all rules left out. Each must be caught.
func weaknesses() []weak {
	return []weak{
		{
			"heartbeat-without-wait", "a heartbeat counts only when a majority has it", noWait,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1},
			steps(takeOver(), moves(b)),
			"P1", false,
		},
		{
			"script-writes-nothing", "each script writes, so that WAIT waits for something", writesNothing,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, lostReply: 3},
			steps(takeOver(), moves(a), on(actLook, b, oldMaster, 0)),
			"P1", false,
		},
		{
			"no-second-look", "the identity is compared again after WAIT", noSecondLook,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 2, handBack: 1, slow: 1},
			steps(landedLate(), divided(), ticks(3)),
			"P1", false,
		},
		{
			"identity-once", "each script compares the identity, not the connection", identityOnce,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			nil,
			"P1", false,
		},
		{
			"no-sync-counters", "how often replicas have synchronised belongs to the identity", noSyncCounters,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 2},
			divided(),
			"P1", false,
		},
		{
			"full-syncs-only", "partial synchronisations count as full ones do", fullSyncsOnly,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 2, oldFile: 1},
			divided(),
			"P1", false,
		},
		{
			"no-gate", "ownership is given only at an identity that has been good for T", noGate,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			claimedLate(),
			"P1", false,
		},
		{
			"gate-from-sending", "T counts from the arrival of the first good reply", gateFromSending,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			steps(claimedLate(), on(actAsk, b, 0, 0), ticks(1), on(actBeat, a, oldMaster, byOther)),
			"P1", false,
		},
		{
			"heartbeats-open", "a heartbeat opens the gate as well, on the same condition", heartbeatsOpen,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			claimedLate(),
			"P1", false,
		},
		{
			"waited-of-any-identity", "what the store keeps of the time that has passed counts under one identity",
			waitedAnywhere,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			claimedLate(),
			"P1", false,
		},
		{
			"waited-added-by-two", "two that wait at once do not add up: each counts on from what it has read",
			waitedTwice,
			threeNodes(quarters),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1, visits: 2},
			visited(),
			"P1", false,
		},
		{
			"waited-from-sending", "and from when it had read that", waitedFromSending,
			threeNodes(quarters),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1, slow: 1, visits: 2},
			visited(),
			"P1", false,
		},
		{
			"deaths-remembered", "in another lineage remembered deaths are forgotten", remembersDeaths,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1},
			steps(
				on(actLook, b, oldMaster, 0), ticks(3), on(actBury, b, oldMaster, byOther), takeOver(),
				moves(a), moves(b),
			), "P1", false,
		},
		{
			"no-audit", "each process compares what it holds before its heartbeats count", noAudit,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			steps(claimedLate(), divided()),
			"P1", false,
		},
		{
			"audit-session-only", "a run ends whose lock is not exactly the last acknowledged write", auditsSessionOnly,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			steps(claimedLate(), divided()),
			"P1", false,
		},
		{
			"resume-without-gate", "to start an expired key again is a claim", resumesAtOnce,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 2},
			divided(),
			"P1", false,
		},
		{
			"repeat-elsewhere", "what is unknown is not repeated in another lineage (next to high, which covers for it)",
			repeatsElsewhere,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1, slow: 1},
			steps(
				on(actHandBack, a, 0, 0), on(actRelease, a, oldMaster, byOther), on(actLook, b, oldMaster, 0),
				late(actClaim, b, sent), takeOver(), moves(a),
			), "P1", false,
		},
		{
			"start-found-claim", "a claim that is found landed counts only behind the gate", startsFoundClaim,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 2, handBack: 1, slow: 1},
			steps(landedLate(), divided(), ticks(3)),
			"P1", false,
		},
		{
			"lists-anywhere", "a list counts only in the lineage that is known", listsAnywhere,
			threeNodes(),
			map[dbFault]int8{failover: 1, relink: 1},
			steps(
				takeOver(), moves(a), on(actLook, b, oldMaster, 0),
				slices.Repeat(steps(ticks(1), on(actBeat, a, newMaster, byOther)), 3),
				late(actBury, b, executed), moves(b),
			), "P1", false,
		},
		{
			"two-leases", "one T for all that share a store", twoLeases,
			threeNodes(longLease),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1},
			steps(claimedLate(), takeOver(), moves(b)),
			"P1", true,
		},
		{
			"nodes-not-counted", "a master with more replicas than configured is refused", countsNoNodes,
			threeNodes(fiveNodes),
			map[dbFault]int8{failover: 1, relink: 1},
			divided(),
			"P1", true,
		},
		{
			"nodes-forgotten", "once there were too many it is refused for good", forgetsNodes,
			threeNodes(fiveNodes),
			map[dbFault]int8{failover: 1, relink: 1, catchUp: 2},
			steps(
				late(actBeat, a, executed), on(actReplicate, 0, newMaster, 0), on(actReplicate, 0, other, 0),
				divided(),
			), "P1", false,
		},
		{
			"nodes-counted-at-once", "a node that has taken the place of another one counts besides it", countsAtOnce,
			threeNodes(fourNodes),
			map[dbFault]int8{failover: 1, relink: 1, unlink: 1},
			[]dbAction{{kind: actUnlink, node: other}}, // so that never more than three are connected
			"P1", false,
		},
		{
			"acks-of-nodes", "a reply waits for more replicas where more than N nodes were met", acksOfNodes,
			threeNodes(fourNodes),
			nil,
			[]dbAction{
				{kind: actUnlink, node: other},
				{kind: actPromote, node: other},
				{kind: actLink, node: 3, x: other},
			},
			"P1", false,
		},
		{
			"acks-of-a-majority", "for a majority of any N of them, and not of all", acksOfMajority,
			threeNodes(fiveNodes),
			nil,
			steps([]dbAction{{kind: actUnlink, node: newMaster}, {kind: actUnlink, node: other}}, takeOver()),
			"P1", false,
		},
		{
			"no-high-mark", "revisions of ownership exceed the time at which the gate was opened", noHighMark,
			threeNodes(clocked),
			map[dbFault]int8{failover: 1, relink: 1, handBack: 1, slow: 1},
			steps(claimedLate(), divided()),
			"P2", false,
		},
		{
			"opened-in-use", "an operator opens the gate of a new database while nothing runs", opensInUse,
			oneNode(fresh),
			map[dbFault]int8{opening: 2, oldFile: 1},
			nil,
			"P1", false,
		},
	}
}
