package elect_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// script is the faults of a cluster, step by step. It is drawn by rapid, and printed when a run fails.
type script struct {
	seed  uint64 // of latencies, losses and clocks' rates
	first time.Duration
	steps []simStep
}

// simStep is one event of a cluster, and the pause after it.
type simStep struct {
	what string
	node int // of those there are, counted round
	arg  int
	rest time.Duration
}

func (s simStep) String() string {
	return fmt.Sprintf("%s node %d arg %d, then wait %v", s.what, s.node, s.arg, s.rest)
}

func (c script) String() string {
	lines := make([]string, 0, len(c.steps)+1)
	lines = append(lines, fmt.Sprintf("seed %d, wait %v", c.seed, c.first))
	for _, s := range c.steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n")
}

// The steps by what they do. Modes of the network are named as [simNode.verdict] knows them; empty is well.
var (
	simFaults = []string{
		"lossy", "cut", "down", "deaf", "slow", "well", "all lossy", "all cut", "all down", "all deaf", "all slow",
		"all well",
		"crash", "restart in place", "freeze", "start", "stop", "restart all", "declare",
	}
	simHands = []string{"delete a lock", "free a lock", "delete a session", "delete a member", "kill a session"}
)

func drawScript(t *rapid.T, hands bool) script {
	kinds := simFaults
	if hands {
		kinds = append(append([]string{}, simHands...), append(simHands, kinds...)...)
	}
	ms := func(limit time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(
			rapid.IntRange(0, int(limit.Milliseconds())),
			func(n int) time.Duration { return time.Duration(n) * time.Millisecond },
		)
	}
	one := rapid.Custom(func(t *rapid.T) simStep {
		return simStep{
			what: rapid.SampledFrom(kinds).Draw(t, "what"),
			node: rapid.IntRange(0, 2*simNodes-1).Draw(t, "node"),
			arg:  rapid.IntRange(0, 99).Draw(t, "arg"),
			rest: ms(lease).Draw(t, "rest"),
		}
	})
	return script{
		seed:  rapid.Uint64Range(0, 1<<20).Draw(t, "seed"),
		first: ms(3*time.Second).Draw(t, "first"),
		steps: rapid.SliceOfN(one, 0, 24).Draw(t, "steps"),
	}
}

// disturb does one step.
func (s *sim) disturb(step simStep) {
	n := s.nodes[step.node%len(s.nodes)]
	s.log("step: %s %s", step, n.name)
	mode, all := strings.CutPrefix(step.what, "all ")
	switch mode {
	case "well":
		s.set(n, "", all)
	case "lossy", "cut", "down", "deaf", "slow":
		s.set(n, mode, all)
	case "crash":
		s.crash(n)
	case "restart in place":
		if !n.isGone() {
			s.crash(n)
			s.start(n.name, n.left()...)
		}
	case "freeze":
		n.freeze()
		time.AfterFunc(lease/2+time.Duration(step.arg)*lease/40, n.thaw)
	case "start":
		if s.running() < 2*simNodes {
			s.start("")
		}
	case "stop":
		n.cancel() // in order, or as far as its faults allow
	case "restart all":
		s.restartAll(step.arg%2 == 0)
	case "declare":
		s.list = simList{revision: s.list.revision + 1, first: step.arg % 4, limit: 3 + step.arg%(simKeys-2)}
		for _, n := range s.nodes {
			list := s.list
			n.done.Go(func() { s.declare(s.t.Context(), n, list) })
		}
	default:
		s.hand(step)
	}
}

func (s *sim) set(n *simNode, mode string, all bool) {
	if !all {
		n.set(mode)
		return
	}
	for _, n := range s.nodes {
		n.set(mode)
	}
}

func (s *sim) running() int {
	n := 0
	for _, node := range s.nodes {
		if !node.isGone() {
			n++
		}
	}
	return n
}

// restartAll ends every process, in order or not, and starts as many under the same names.
func (s *sim) restartAll(inOrder bool) {
	var names []string
	for _, n := range s.nodes {
		if n.isGone() {
			continue
		}
		if inOrder {
			n.cancel()
		} else {
			s.crash(n)
		}
		if len(names) < simNodes {
			names = append(names, n.name)
		}
	}
	for _, name := range names {
		s.start(name)
	}
}

// hand changes a document as an operator would, who goes past the protocol.
func (s *sim) hand(step simStep) {
	put := func(d driver.Doc, change func(*driver.Doc)) driver.Change {
		c := driver.Change{IfRev: d.Rev, Doc: d}
		c.Doc.Rev, c.Doc.WriterID = d.Rev+1, driver.WriterID{Session: "hand", Seq: d.Rev}
		change(&c.Doc)
		return c
	}
	remove := func(d driver.Doc) driver.Change { return driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: d} }
	switch step.what {
	case "delete a lock":
		s.byHand(driver.KindLock, step.arg, remove)
	case "free a lock":
		s.byHand(
			driver.KindLock, step.arg,
			func(d driver.Doc) driver.Change { return put(d, func(d *driver.Doc) { d.Session = "" }) },
		)
	case "delete a session":
		s.byHand(driver.KindSession, step.arg, remove)
	case "delete a member":
		s.byHand(driver.KindMember, step.arg, remove)
	case "kill a session":
		s.byHand(driver.KindSession, step.arg, func(d driver.Doc) driver.Change {
			return put(d, func(d *driver.Doc) { d.State = string(record.Dead) })
		})
	}
}

// clockError is how far, in ms, replicas may be apart about the store's clock. Each knows it from a reply that was
// under way for a while. A lock that is deleted so soon after it was claimed may be claimed again under the same token.
// It is a limit of tokens made of time, which no manual edit is quick enough to meet.
const clockError = 1000

func (s *sim) byHand(kind driver.Kind, which int, change func(driver.Doc) driver.Change) {
	res, err := s.store.List(s.t.Context(), kind, driver.Query{})
	if err != nil || len(res.Docs) == 0 {
		return
	}
	d := res.Docs[which%len(res.Docs)]
	c := change(d)
	if kind == driver.KindLock && c.Op == driver.Delete && res.Now-d.Rev < clockError {
		return
	}
	if _, err := s.store.Apply(s.t.Context(), c); err != nil {
		s.fail("a hand could not write", "%v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLocked("hand: op %d on %s %s, state %q", c.Op, kind, d.ID, c.Doc.State)
	if kind == driver.KindSession && c.Doc.State == string(record.Dead) {
		for _, g := range []string{"g", "x"} { // also what it claims before it notices
			for i := range simKeys + 4 {
				s.touched[elect.NewKey(g, fmt.Sprint(i))] = time.Now()
			}
		}
	}
	if kind == driver.KindLock {
		s.touched[elect.Key(d.ID)] = time.Now()
	}
}
