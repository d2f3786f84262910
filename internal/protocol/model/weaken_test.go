package model_test

import "time"

// weakening is one rule left out, or one common mistake made. It changes what goes into the machines or comes out of
// them, never anything in them.
type weakening uint8

const (
	none weakening = iota
	deadlineFromReply
	deadlineFromLastCopy
	waitsTooShort
	waitsOwnLeaseOnly
	noHardDeadline
	startsWithoutValidity
	startsUnacknowledged
	startsWhateverWasRead
	killsWithoutRev
	releasesWithoutRev
	claimsUnconditioned
	extendsUnacknowledged
	believesUnansweredKill
	heartbeatIgnoresState
	adoptsWithOldToken
	releasesBeforeReturn
	guardMarksEarly
	guardLetsSessionsEnd
	guardFreesWhatRuns
	guardFreesNothing
	agesFromSending
	noClockInRevisions
	holderCountsMonotonicOnly
	killerCountsLarger
	endsWithTasks
	missingFreesKeys
	missingIsDeadAtOnce
	missingWaitsOwnLease
	agesGoOnAfterOutage
	giverMakesOwner
	forgetsUnknownWrites
	givesUpUnknownWrites
	workerMarksWithoutGuard
	workerOutlivesGuard
	successorByName
	clocksBeyondBound
	hangsOnOneTimer
	neverMarksDead
	deathsAtEven
	creationRepeated
	clockOfItsOwn
	noHighWaterMark
	restoresWhileRunning
	claimsEditedAtOnce
	readsWithoutToken
	setsOverLargerToken
	setsUnconditioned
	believesUnansweredSet
	forgetsAbandonedSet
	claimsWithoutMark
	listsBeforeMark
	readsMarkOnce
	readsMarkStale
	moverListsStale
	movesWithoutWaiting
	trustsMissing
	movesWithoutBurying
	buriesWithoutRev
	opensWithoutMark
)

// weak is a weakening, the rule it breaks, a cluster in which that shows, and the promise that then fails.
type weak struct {
	name    string
	rule    string
	by      weakening
	setting setting
	left    budget
	breaks  string
}

func beyond(s *setting) { s.rates[0] = 900 * time.Millisecond }

// weaknesses are all weakenings. Each must be caught.
func weaknesses() []weak {
	return []weak{
		{
			"deadline-from-reply", "deadlines count from the moment a request was sent", deadlineFromReply,
			two(),
			budget{slow: 1, lose: 1},
			"P1",
		},
		{
			"deadline-from-last-copy", "of a heartbeat that was sent twice the deadline counts from the first copy",
			deadlineFromLastCopy,
			two(),
			budget{slow: 1, lose: 1},
			"P1",
		},
		{
			"wait-too-short", "a killer waits T, longer than the hard deadline of the holder", waitsTooShort,
			two(),
			budget{cutOff: 1},
			"P1",
		},
		{
			"wait-own-lease", "a killer waits the larger of its own T and the other's", waitsOwnLeaseOnly,
			two(longer),
			budget{cutOff: 1},
			"P1",
		},
		{
			"no-hard-deadline", "nothing of a task is alive after X", noHardDeadline,
			two(),
			budget{cutOff: 1},
			"P1",
		},
		{
			"one-timer", "holders of a deadline look at the clock again and again: no deadline hangs on one timer",
			hangsOnOneTimer,
			two(),
			budget{stopAll: 1},
			"P1",
		},
		{
			"never-mark-dead", "a session that stands still is marked dead", neverMarksDead,
			two(),
			budget{killBoth: 1},
			"P8",
		},
		{
			"clocks-beyond-bound", "the rates of two clocks differ by a ratio of at most 1.1", clocksBeyondBound,
			two(beyond),
			budget{cutOff: 1},
			"P1",
		},
		{
			"start-without-validity", "a run starts only before D", startsWithoutValidity,
			two(),
			budget{slow: 1, cutOff: 1, giveUp: 1},
			"P1",
		},
		{
			"start-unacknowledged", "a run starts only when its claim is acknowledged", startsUnacknowledged,
			two(),
			budget{lose: 1, giveUp: 1},
			"P",
		},
		{
			"start-whatever-was-read", "a claim is read back as one's own only at exactly what it would have written",
			startsWhateverWasRead,
			two(),
			budget{advance: 1, touchLock: 1},
			"P2",
		},
		{
			"kill-without-rev", "a session is marked dead only as it was seen", killsWithoutRev,
			two(),
			budget{slow: 1, cutOff: 1},
			"P1",
		},
		{
			"release-without-rev", "a release is conditioned on the revision", releasesWithoutRev,
			two(),
			budget{slow: 1, double: 1, giveUp: 2},
			"P",
		},
		{
			"claim-unconditioned", "a claim is conditioned on the revision", claimsUnconditioned,
			two(),
			budget{slow: 1, giveUp: 1},
			"P",
		},
		{
			"extend-unacknowledged", "only an acknowledged heartbeat moves deadlines", extendsUnacknowledged,
			two(),
			budget{cutOff: 1},
			"P1",
		},
		{
			"believe-unanswered-kill", "a kill is believed only when acknowledged or read back", believesUnansweredKill,
			two(),
			budget{lose: 1, cutOff: 1},
			"P1",
		},
		{
			"heartbeat-ignores-state", "a heartbeat is refused once the session is dead", heartbeatIgnoresState,
			two(),
			budget{slow: 1, cutOff: 1},
			"P1",
		},
		{
			"adopt-with-old-token", "what is adopted is claimed again, under a new token", adoptsWithOldToken,
			two(),
			budget{outage: 1},
			"P2",
		},
		{
			"release-before-return", "a key is released after its run has returned and all of it is gone",
			releasesBeforeReturn,
			two(),
			budget{giveUp: 1},
			"P",
		},
		{
			"guard-marks-early", "a guard marks the session after all tasks are gone", guardMarksEarly,
			two(),
			budget{killWorker: 1},
			"P1",
		},
		{
			"guard-lets-session-end", "a guard keeps the session of a dead worker while a run of it cannot be ended",
			guardLetsSessionsEnd,
			two(),
			budget{killWorker: 1, immunity: 1},
			"P1",
		},
		{
			"guard-frees-what-runs", "of a session that it keeps a guard frees a key when nothing of its run is left",
			guardFreesWhatRuns,
			two(),
			budget{killWorker: 1, immunity: 1},
			"P1",
		},
		{
			"guard-frees-nothing", "a guard that keeps a session frees the keys of it that do not run",
			guardFreesNothing,
			two(loaded),
			budget{killWorker: 1, immunity: 1},
			"P8",
		},
		{
			"ages-from-sending", "the age of a heartbeat counts from the arrival of the reply that showed it",
			agesFromSending,
			two(),
			budget{slow: 1, cutOff: 1},
			"P1",
		},
		{
			"no-clock-in-revisions",
			"the revision of a claim is the larger of rev + 1 and the store's time (next to the high-water mark, " +
				"which covers for it)",
			noClockInRevisions,
			two(clocked),
			budget{giveUp: 1, dropLock: 1},
			"P2",
		},
		{
			"holder-counts-monotonic-only", "holders take the larger elapsed of CLOCK_MONOTONIC and CLOCK_BOOTTIME",
			holderCountsMonotonicOnly,
			two(),
			budget{sleep: 1},
			"P1",
		},
		{
			"end-with-tasks", "a session ends, and a new one is opened, when all tasks of the old one are gone",
			endsWithTasks,
			two(),
			budget{dropSession: 1},
			"P1",
		},
		{
			"missing-frees-keys", "only a document that says dead frees keys", missingFreesKeys,
			two(),
			budget{dropSession: 1},
			"P1",
		},
		{
			"missing-dead-at-once", "a missing session is created as dead only after the largest T",
			missingIsDeadAtOnce,
			two(),
			budget{dropSession: 1, cutOff: 1},
			"P1",
		},
		{
			"missing-waits-own-lease", "of all members known", missingWaitsOwnLease,
			two(longer),
			budget{dropSession: 1, cutOff: 1, killBoth: 1, restart: 1},
			"P1",
		},
		{
			"ages-go-on", "after an outage of one's own all ages start again", agesGoOnAfterOutage,
			two(calmly),
			budget{outage: 1},
			"a session",
		},
		{
			"killer-counts-larger",
			"killers take the smaller elapsed of the two clocks (next to the rule for outages, which covers for it)",
			killerCountsLarger, two(),
			budget{sleep: 2},
			"P1",
		},
		{
			"giver-makes-owner", "only the receiver makes itself owner", giverMakesOwner,
			two(receiver),
			budget{giveUp: 2},
			"P8",
		},
		{
			"forget-unknown-writes", "an unknown write is repeated until answered", forgetsUnknownWrites,
			two(),
			budget{slow: 1, giveUp: 1},
			"P8",
		},
		{
			"give-up-unknown-writes", "only a write of which nothing was sent is given up", givesUpUnknownWrites,
			two(),
			budget{slow: 1, giveUp: 1},
			"P8",
		},
		{
			"worker-marks", "a worker whose guard is gone exits without marking", workerMarksWithoutGuard,
			two(),
			budget{killGuard: 1},
			"P1",
		},
		{
			"worker-outlives-guard", "a worker whose guard is gone exits", workerOutlivesGuard,
			two(),
			budget{killGuard: 1, stopWorker: 1},
			"P1",
		},
		{
			"deaths-at-even", "a session is written alive at even revisions and dead at odd ones", deathsAtEven,
			two(coldly, lateHeartbeat),
			budget{dropSession: 1},
			"P1",
		},
		{
			"creation-repeated", "a session's creation is sent once", creationRepeated,
			two(coldly, lateCreation),
			budget{slow: 1, dropSession: 1},
			"P1",
		},
		{
			"clock-of-its-own",
			"revisions follow the largest time that a reply of the store has shown (next to the high-water mark, " +
				"which covers for it)",
			clockOfItsOwn,
			two(clocked),
			budget{giveUp: 2, dropLock: 1},
			"P2",
		},
		{
			"no-high-water-mark", "an absent lock is created above the high-water mark of its group", noHighWaterMark,
			two(clocked),
			budget{giveUp: 1, dropLock: 1, clockBack: 1, killBoth: 2, restart: 2},
			"P2",
		},
		{
			"restore-while-running", "backups are restored with all replicas stopped", restoresWhileRunning,
			two(clocked, onlyStopped),
			budget{backUp: 1, bringAllBack: 1, cutOff: 1, giveUp: 1},
			"P1",
		},
		{
			"claim-edited-at-once",
			"a lock that names this session by another's write is left alone for T: its owner may still run the key",
			claimsEditedAtOnce,
			two(),
			budget{nameOwner: 1},
			"P1",
		},
		{
			"read-without-token", "the first read of a value under a token writes the token before it returns",
			readsWithoutToken,
			two(valued),
			budget{slow: 1, giveUp: 1, getValue: 1, setValue: 1},
			"P2",
		},
		{
			"set-over-larger-token", "a value that a larger token has read or set is not set", setsOverLargerToken,
			two(valued),
			budget{giveUp: 1, getValue: 1, setValue: 1},
			"P2",
		},
		{
			"set-unconditioned", "a set is conditioned on the revision", setsUnconditioned,
			two(valued),
			budget{slow: 1, giveUp: 1, getValue: 1, setValue: 1},
			"P2",
		},
		{
			"believe-unanswered-set", "a set is believed only when acknowledged", believesUnansweredSet,
			two(valued),
			budget{lose: 1, setValue: 1},
			"P8",
		},
		{
			"forget-abandoned-set", "after a set that was abandoned unanswered, the next read writes as the first does",
			forgetsAbandonedSet,
			two(valued),
			budget{slow: 1, getValue: 2, setValue: 1},
			"P2",
		},
		{
			"successor-by-name", "a name alone proves nothing: a restart in place needs the same container",
			successorByName,
			two(),
			budget{impostor: 1},
			"P1",
		},
	}
}
