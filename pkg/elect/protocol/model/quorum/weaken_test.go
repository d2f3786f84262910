package quorum_test

import "slices"

// weak is a rule left out, and a scenario in which that shows.
type weak struct {
	name string
	rule string
	by   rule
	scenario
}

// Clients and servers by which searches begin. Of two ballots with one counter, that of client a is higher.
const (
	a, b                = 0, 1
	first, second, last = 0, 1, 2
)

func faults(left map[fault]int8, from start, of ...[]opKind) scenario {
	return scenario{from: from, scripts: of, left: left}
}

func (sc scenario) preceded(by ...[]action) scenario {
	sc.before = slices.Concat(by...)
	return sc
}

// asks is a client that has its answer from some servers.
func asks(p int8, at ...int8) (all []action) {
	for _, s := range at {
		all = append(all, action{actAsk, p, s})
	}
	return all
}

func on(kind actionKind, p, s int8) []action { return []action{{kind, p, s}} }

func begins(p int8) []action { return on(actBegin, p, 0) }

// creationLate is a creation whose promises a has, and whose acceptance is late at the last server.
func creationLate() []action {
	return slices.Concat(begins(a), asks(a, first, second), on(actCopy, a, last))
}

// removed is the removal of a tombstone that all servers hold, an hour later.
func removed() []action {
	all := on(actHour, 0, 0)
	for _, kind := range []actionKind{actShow, actRaise, actRemove} {
		for s := range int8(maxServers) {
			if kind != actRaise || s == 0 {
				all = append(all, action{kind: kind, s: s})
			}
		}
	}
	return all
}

// deletes is b, which reads the document and has deleted it on all servers.
func deletes() []action {
	return slices.Concat(
		begins(b), asks(b, first, second),
		begins(b), asks(b, first, second), on(actAskSlowly, b, last), asks(b, first, second),
	)
}

// weaknesses are all rules left out. Each must be caught.
func weaknesses() []weak {
	two, one := ops(opPut, opPut), ops(opPut)
	return slices.Concat(weakRounds(two, one), weakTombstones(), weakDisks(one))
}

func weakDisks(one []opKind) []weak {
	lost := slices.Concat(on(actWipe, 0, second), on(actReadmit, 0, second))
	return []weak{
		{
			"empty-disk-counts", "a server without an identity does not count", hasIdentity,
			faults(map[fault]int8{wipes: 1}, live, one, ops(opRead)),
		},
		{
			"readmitted-by-copy", "a server is re-admitted after a majority has decided without it", decidesAgain,
			faults(map[fault]int8{wipes: 1, readmits: 1}, live, one, ops(opRead)),
		},
		{
			"readmitted-without-floor", "a server that is re-admitted refuses older ballots", floorsReadmitted,
			faults(
				map[fault]int8{hours: 1, removes: 1, copies: 1, slow: 1, abandons: 1, wipes: 1, readmits: 1, retries: 1},
				live, ops(opPut, opRead), ops(opRead, opDelete),
			).preceded(
				creationLate(), on(actAbandon, a, 0), deletes(), removed(), on(actWipe, 0, last), on(actReadmit, 0, last),
			),
		},
		{
			"readmitted-by-some", "servers without a record of a document take part in deciding it again", asksAllOthers,
			faults(map[fault]int8{wipes: 1, readmits: 1, retries: 1}, empty, ops(opRead), ops(opCreate)).preceded(
				begins(b), asks(b, last, second), asks(b, second), lost,
			),
		},
		{
			"readmitted-just-above", "a re-admission is far above all ballots that the other servers have seen", jumps,
			faults(map[fault]int8{wipes: 1, readmits: 1, retries: 2}, empty, ops(opRead, opCreate), ops(opCreate)).preceded(
				begins(b), on(actRetry, b, 0), on(actRetry, b, 0), asks(b, second), lost,
			),
		},
	}
}

func weakRounds(two, one []opKind) []weak {
	return []weak{
		{
			"promises-forgotten", "a promise is durable before it is answered", keepsPromises,
			faults(map[fault]int8{restarts: 2}, live, one, one),
		},
		{
			"name-used-again", "each start of a process has a name of its own", freshNames,
			faults(map[fault]int8{crashes: 1}, empty, ops(opCreate, opCreate), ops(opRead)),
		},
		{
			"refusal-not-accepted", "a refusal is told when a majority has accepted what it found", acceptsRefusals,
			faults(map[fault]int8{retries: 1, abandons: 1}, live, ops(opPut, opRead), one).preceded(
				begins(b), asks(b, first, second), asks(b, first),
				begins(a), asks(a, second, last), asks(a, second),
			),
		},
		{
			"next-not-promised", "an acceptance promises the next ballot", promisesNext,
			faults(nil, live, two, ops(opRead, opPut)),
		},
		{
			"read-of-one", "a read ends when a majority shows one ballot", readsAgree,
			faults(nil, live, one, ops(opRead, opRead)),
		},
		{
			"filtered-before-merged", "a list is filtered after it was merged", filtersLast,
			faults(nil, live, ops(opDelete), ops(opRead, opList)),
		},
		{
			"own-write-not-known", "a write found under its own writer ID is applied", knowsOwn,
			faults(map[fault]int8{retries: 1}, live, one),
		},
		{
			"own-write-not-accepted", "a write found is applied when a majority has accepted it again", acceptsOwn,
			faults(map[fault]int8{retries: 1}, live, one, ops(opPut, opRead)),
		},
	}
}

func weakTombstones() []weak {
	return []weak{
		{
			"same-revision-over-tombstone", "a creation over a tombstone needs a higher revision", risesOverTombstones,
			faults(map[fault]int8{retries: 1, slow: 2}, empty, ops(opCreate), ops(opRead, opDelete)).preceded(
				begins(a), asks(a, first, second), asks(a, first), on(actAskSlowly, a, second), deletes(),
			),
		},
		{
			"removed-at-majority", "a tombstone is removed when all servers hold it", removesAtAll,
			faults(map[fault]int8{hours: 1, removes: 1, retries: 1}, live, ops(opDelete), ops(opRead)),
		},
		{
			"no-floor", "a floor stays where a tombstone was removed", raisesFloor,
			faults(map[fault]int8{hours: 1, removes: 1, copies: 1}, deleted, ops(opCreate, opRead), ops(opCreate)).preceded(
				creationLate(), removed(),
			),
		},
		{
			"floor-below-promises", "the floor covers ballots that were promised", floorOfPromises,
			faults(map[fault]int8{hours: 1, removes: 1, copies: 1}, deleted, ops(opCreate, opRead), ops(opCreate)).preceded(
				creationLate(), removed(),
			),
		},
		{
			"never-given-up", "a write unanswered for an hour is never repeated", givesUp,
			faults(
				map[fault]int8{hours: 1, removes: 1, slow: 2, retries: 2}, empty, ops(opCreate), ops(opRead, opDelete),
			).preceded(
				begins(a), asks(a, first, second), asks(a, first), on(actAskSlowly, a, second), deletes(), removed(),
			),
		},
	}
}
