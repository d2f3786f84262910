package model_test

// moveWeaknesses are those of a move to another store. Each ends in two runs of one key.
func moveWeaknesses() []weak {
	return []weak{
		moves(
			"claim-without-mark", "a session reads the store's mark before its first claim", claimsWithoutMark,
			budget{killBoth: 1, restart: 1},
		),
		moves(
			"list-before-mark",
			"a mover marks the store and then lists sessions (next to the look before it opens the other store, "+
				"which covers for it)",
			listsBeforeMark, budget{killBoth: 1, restart: 1},
		),
		moves("read-mark-once", "each session reads the mark, not each process", readsMarkOnce, budget{cutOff: 1}),
		moves(
			"read-mark-stale", "the mark is read linearizably", readsMarkStale,
			budget{killBoth: 1, restart: 1, stale: 1},
		),
		moves(
			"mover-lists-stale", "a mover's list shows all that was acknowledged before its mark", moverListsStale,
			budget{killBoth: 1, restart: 1, stale: 1},
		),
		moves("move-without-waiting", "a mover waits for the longest lease", movesWithoutWaiting, budget{cutOff: 1}),
		moves(
			"move-trusts-missing", "it waits as well when it finds no session: one may have been deleted",
			trustsMissing,
			budget{dropSession: 1},
		),
		moves(
			"move-without-burying",
			"sessions that stood still are marked dead before the move (next to the look before the other store is "+
				"opened, which covers for it)",
			movesWithoutBurying, budget{stopAll: 1},
		),
		moves(
			"bury-without-rev", "a mover marks a session dead only as it was seen", buriesWithoutRev,
			budget{cutOff: 1},
		),
		moves(
			"open-without-mark", "a mover reads its mark again before it opens the other store", opensWithoutMark,
			budget{killBoth: 1, restart: 1, dropMark: 1},
		),
	}
}

// moves is a weakness that one move shows, with these faults besides.
func moves(name, rule string, without weakening, left budget) weak {
	left[moving] = 1
	return weak{name, rule, without, two(moved, alone), left, "P1"}
}
