package ballot_test

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
	a, b, c             = 0, 1, 2
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

// readmits is c, which re-admits the server that lost its disk, where the others have no record.
func readmits() []action {
	return slices.Concat(begins(c), on(actFloor, c, 0), on(actCommit, c, 0))
}

// decides is a re-admission as far as the other servers have decided the document again.
func decides(p int8) []action {
	return slices.Concat(
		begins(p), on(actFloor, p, 0), asks(p, first, second), asks(p, first, second), on(actJoin, p, 0),
	)
}

// losesAgain is the last server, which loses its disk, is re-admitted, has b's promise alone, and loses it again.
func losesAgain() []action {
	return slices.Concat(
		on(actWipe, 0, last), readmits(),
		begins(b), asks(b, last), on(actRetry, b, 0), on(actRetry, b, 0), asks(b, last),
		on(actWipe, 0, last), readmits(),
	)
}

func weakDisks(one []opKind) []weak {
	lost := slices.Concat(on(actWipe, 0, second), readmits())
	return []weak{
		{
			"empty-disk-counts", "a server without an identity does not count", hasIdentity,
			faults(map[fault]int8{wipes: 1}, live, one, ops(opRead)),
		},
		{
			"readmitted-undecided", "a server is re-admitted after a majority has decided without it", decidesAgain,
			faults(map[fault]int8{wipes: 1}, live, one, ops(opRead), ops(opReadmit)),
		},
		{
			"readmitted-unreserved", "a re-admission ends on the disk and as the one that it has begun on", reserves,
			faults(
				map[fault]int8{wipes: 2, retries: 3}, live, ops(opPut, opRead), ops(opReadmit), ops(opReadmit),
			).preceded(
				on(actWipe, 0, last), decides(b), decides(c), on(actCommit, c, 0), begins(a), asks(a, last),
				on(actRetry, a, 0),
			),
		},
		{
			"readmitted-empty", "a server accepts what the others have decided before it is re-admitted", accepts,
			faults(map[fault]int8{wipes: 1}, empty, ops(opCreate), ops(opRead), ops(opReadmit)).preceded(
				begins(a), asks(a, first, second), asks(a, first, last), begins(b), asks(b, second),
				on(actWipe, 0, first),
			),
		},
		{
			"readmitted-without-floor", "a server that is re-admitted refuses older ballots", floorsReadmitted,
			faults(
				map[fault]int8{hours: 1, removes: 1, copies: 1, slow: 1, abandons: 1, wipes: 1, retries: 1},
				live, ops(opPut, opRead), ops(opRead, opDelete), ops(opReadmit),
			).preceded(
				creationLate(), on(actAbandon, a, 0), deletes(), removed(), on(actWipe, 0, last), readmits(),
			),
		},
		{
			"readmitted-just-above", "a re-admission is far above all ballots that the other servers have seen", jumps,
			faults(map[fault]int8{wipes: 1, retries: 2}, empty, ops(opRead, opCreate), ops(opCreate),
				ops(opReadmit)).preceded(
				begins(b), on(actRetry, b, 0), on(actRetry, b, 0), asks(b, second), lost,
			),
		},
		{
			"readmitted-twice", "the other servers keep the floor of one that is re-admitted", floorsOthers,
			faults(
				map[fault]int8{wipes: 2, retries: 3}, empty, ops(opCreate, opRead), ops(opCreate),
				ops(opReadmit, opReadmit),
			).preceded(
				losesAgain(), begins(a), asks(a, last), on(actRetry, a, 0),
			),
		},
		{
			"set-up-adopted", "a process belongs to one set-up of the quorum", pinsIncarnation,
			faults(map[fault]int8{setups: 1}, live, ops(opPut, opPut), ops(opCreate)),
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
			"counter-forgotten", "a process that forgets a document keeps the counter of its ballots", keepsCounters,
			faults(map[fault]int8{forgets: 1, abandons: 1}, empty, ops(opCreate, opCreate), ops(opRead)),
		},
		{
			"refusal-not-accepted", "a refusal is answered when a majority has accepted what it found", acceptsRefusals,
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
			faults(map[fault]int8{hours: 1, removes: 1, copies: 1}, deleted, ops(opCreate, opRead),
				ops(opCreate)).preceded(
				creationLate(), removed(),
			),
		},
		{
			"floor-below-promises", "the floor covers ballots that were promised", floorOfPromises,
			faults(map[fault]int8{hours: 1, removes: 1, copies: 1}, deleted, ops(opCreate, opRead),
				ops(opCreate)).preceded(
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
