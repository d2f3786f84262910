package ballot_test

import (
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

type actionKind int8

const (
	actBegin actionKind = iota
	actAsk
	actAskSlowly
	actAnswer
	actCopy
	actStray
	actRound
	actRetry
	actAbandon
	actCrash
	actRestart
	actWipe
	actFloor
	actJoin
	actCommit
	actSetUp
	actForget
	actHour
	actShow
	actRaise
	actRemove
)

// action is one thing that may happen: who, and at which server.
type action struct {
	kind actionKind
	p, s int8
}

// costs are what an action takes of the budget.
var costs = map[actionKind]fault{
	actAskSlowly: slow, actCopy: copies, actRetry: retries, actAbandon: abandons, actCrash: crashes, actWipe: wipes,
	actSetUp: setups, actForget: forgets, actHour: hours, actRaise: removes, actRestart: restarts,
}

// each calls do for everything that may happen.
func (s *step) each(do func(action)) {
	try := func(a action) {
		if f, ok := costs[a.kind]; !ok || s.budget[f] > 0 {
			do(a)
		}
	}
	for p := range int8(s.setting.clients) {
		s.eachOfClient(p, try)
	}
	for i := range s.stray {
		if to := s.stray[i].to; to > 0 && !s.servers[to-1].lost {
			try(action{kind: actStray, s: int8(i)})
		}
	}
	for i := range int8(maxServers) {
		s.eachOfServer(i, try)
	}
	try(action{kind: actHour})
	try(action{kind: actSetUp})
	if _, ok := s.removal.Floor(); ok && s.removal.begun && !s.removal.raised {
		try(action{kind: actRaise})
	}
}

func (s *step) eachOfClient(p int8, try func(action)) {
	c := &s.world.clients[p]
	if c.next > 0 {
		try(action{kind: actCrash, p: p})
	}
	if c.of != s.setUp && s.without != pinsIncarnation {
		return // no server that it knows is left
	}
	if c.does == idle {
		try(action{kind: actForget, p: p})
		if int(c.next) < len(s.scripts[p]) {
			try(action{kind: actBegin, p: p})
		}
		return
	}
	try(action{kind: actAbandon, p: p})
	if c.does == rounds {
		try(action{kind: actRetry, p: p})
	}
	if c.does == reads && c.read.Answers() >= ballot.Majority(maxServers) {
		try(action{kind: actRound, p: p})
	}
	switch {
	case c.does == raises:
		try(action{kind: actFloor, p: p})
		return
	case c.does == joins:
		try(action{kind: actJoin, p: p})
		return
	case c.does == commits:
		try(action{kind: actCommit, p: p})
		return
	case c.does == rounds && c.round.Phase == ballot.Failed:
		return
	}
	for i := range int8(maxServers) {
		switch {
		case c.answer[i].is:
			try(action{actAnswer, p, i})
		case c.heard[i] || s.servers[i].lost:
		default:
			try(action{actAsk, p, i})
			try(action{actAskSlowly, p, i})
			if c.does == rounds && s.free() >= 0 {
				try(action{actCopy, p, i})
			}
		}
	}
}

func (s *step) eachOfServer(i int8, try func(action)) {
	server := &s.servers[i]
	if s.without == keepsPromises && server.has {
		try(action{kind: actRestart, s: i})
	}
	if s.lost() < 0 {
		try(action{kind: actWipe, s: i})
	}
	r := &s.removal
	if s.budget[removes] > 0 && !r.raised && server.aged && !server.lost && !r.intact[i] &&
		s.values[server.record.Accepted.Value].is == ballot.Deleted {
		try(action{kind: actShow, s: i})
	}
	if r.raised && r.intact[i] {
		try(action{kind: actRemove, s: i})
	}
}

// lost is the server without a disk; -1: none.
func (w *world) lost() int8 {
	for i := range w.servers {
		if w.servers[i].lost {
			return int8(i)
		}
	}
	return -1
}
