package ballot_test

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// trace writes down how a promise breaks.
func (s *setting) trace(begun world, way []action, broken string) string {
	var b strings.Builder
	w := begun
	at := step{setting: s, world: &w}
	for _, a := range way {
		before := w
		at.outcome = ""
		at.do(a)
		fmt.Fprintln(&b, describe(&before, a)+at.ending(a))
	}
	fmt.Fprintf(&b, ">>> %s\n", broken)
	return b.String()
}

func describe(w *world, a action) string {
	who, where := string(rune('A'+a.p)), fmt.Sprintf("server %d", a.s+1)
	at := step{world: w, setting: &setting{}}
	switch a.kind {
	case actBegin:
		return who + " begins"
	case actAsk:
		return fmt.Sprintf("%s %s at %s", who, at.request(a.p), where)
	case actAskSlowly:
		return fmt.Sprintf("%s %s at %s, whose answer takes time", who, at.request(a.p), where)
	case actAnswer:
		return fmt.Sprintf("the answer of %s to %s arrives", where, who)
	case actCopy:
		return fmt.Sprintf("a copy stays on its way: %s %s at %s", who, at.request(a.p), where)
	case actStray:
		late := w.stray[a.s]
		return fmt.Sprintf("the copy arrives: somebody %s at server %d", late.request, late.to)
	case actRound:
		return who + " sees no majority, and begins a full round"
	case actRetry:
		return who + " begins another round"
	case actAbandon:
		return who + " ends without an answer"
	case actCrash:
		return who + " restarts"
	case actRestart:
		return where + " restarts, and has forgotten its promise"
	case actWipe:
		return where + " loses its disk"
	case actFloor:
		return who + " raises the floors of the other servers"
	case actJoin:
		return who + " has the server accept what was decided"
	case actCommit:
		return who + " gives the server its identity, if it may"
	case actSetUp:
		return "all disks are lost, and the quorum is set up again"
	case actForget:
		return who + " forgets the document"
	case actHour:
		return "an hour passes"
	case actShow:
		return "who removes the tombstone sees it at " + where
	case actRaise:
		return "the floor of all servers is raised"
	case actRemove:
		return "the tombstone is removed at " + where
	}
	return ""
}

// ending says what an action began, or what it ended with.
func (s *step) ending(a action) string {
	switch {
	case s.outcome != "":
		return ": " + s.outcome
	case a.kind == actBegin:
		return fmt.Sprint(" to ", s.world.clients[a.p].op)
	}
	return ""
}

var statusNames = map[driver.Status]string{
	driver.Applied: "applied", driver.Refused: "refused", driver.Overtaken: "overtaken", driver.Unknown: "unknown",
}

func (o operation) String() string {
	switch o.kind {
	case opRead:
		return "read"
	case opList:
		return "list what is live"
	case opReadmit:
		return "re-admit the server that lost its disk"
	case opDelete:
		return fmt.Sprintf("delete revision %d", o.ifRev)
	default:
	}
	if o.ifRev == 0 {
		return fmt.Sprintf("create revision %d", o.rev)
	}
	return fmt.Sprintf("replace revision %d by %d", o.ifRev, o.rev)
}

func (r request) String() string {
	switch r.kind {
	case look:
		return "looks"
	case prepare:
		return "prepares " + ballotName(r.ballot)
	case accept:
	}
	return fmt.Sprintf("has value %d accepted under %s", r.value, ballotName(r.ballot))
}

func ballotName(b ballot.Ballot) string { return fmt.Sprintf("%d.%d", b.Counter, b.Proposer[0]) }
