package model_test

// moveWeaknesses are those of a move to another store.
func moveWeaknesses() []weak {
	return []weak{
		{
			"claim-without-mark", "a session reads the store's mark before its first claim", claimsWithoutMark,
			two(moved, alone),
			budget{moving: 1, killBoth: 1, restart: 1},
			"P1",
		},
		{
			"list-before-mark",
			"a mover marks the store and then lists sessions (next to the look before it opens the other store, " +
				"which covers for it)",
			listsBeforeMark,
			two(moved, alone),
			budget{moving: 1, killBoth: 1, restart: 1},
			"P1",
		},
		{
			"read-mark-once", "each session reads the mark, not each process", readsMarkOnce,
			two(moved, alone),
			budget{moving: 1, cutOff: 1},
			"P1",
		},
		{
			"read-mark-stale", "the mark is read linearizably", readsMarkStale,
			two(moved, alone),
			budget{moving: 1, killBoth: 1, restart: 1, stale: 1},
			"P1",
		},
		{
			"mover-lists-stale", "a mover's list shows all that was acknowledged before its mark", moverListsStale,
			two(moved, alone),
			budget{moving: 1, killBoth: 1, restart: 1, stale: 1},
			"P1",
		},
		{
			"move-without-waiting", "a mover waits for the longest lease", movesWithoutWaiting,
			two(moved, alone),
			budget{moving: 1, cutOff: 1},
			"P1",
		},
		{
			"move-trusts-missing", "it waits as well when it finds no session: one may have been deleted", trustsMissing,
			two(moved, alone),
			budget{moving: 1, dropSession: 1},
			"P1",
		},
		{
			"move-without-burying",
			"sessions that stood still are marked dead before the move (next to the look before the other store is " +
				"opened, which covers for it)",
			movesWithoutBurying,
			two(moved, alone),
			budget{moving: 1, stopAll: 1},
			"P1",
		},
		{
			"bury-without-rev", "a mover marks a session dead only as it was seen", buriesWithoutRev,
			two(moved, alone),
			budget{moving: 1, cutOff: 1},
			"P1",
		},
		{
			"open-without-mark", "a mover reads its mark again before it opens the other store", opensWithoutMark,
			two(moved, alone),
			budget{moving: 1, killBoth: 1, restart: 1, dropMark: 1},
			"P1",
		},
	}
}
