package ballot_test

// rule is one that is left out.
type rule int8

const (
	allRules rule = iota
	keepsPromises
	freshNames
	acceptsRefusals
	promisesNext
	readsAgree
	filtersLast
	risesOverTombstones
	removesAtAll
	raisesFloor
	floorOfPromises
	givesUp
	knowsOwn
	acceptsOwn
	hasIdentity
	decidesAgain
	reserves
	accepts
	floorsReadmitted
	floorsOthers
	jumps
	pinsIncarnation
	keepsCounters
)
