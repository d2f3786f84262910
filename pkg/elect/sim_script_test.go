package elect_test

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// disturb does one thing to the cluster.
func (s *sim) disturb(hands bool) {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	modes := []string{"", "", "lossy", "lossy", "lossy", "cut", "down", "deaf"}
	kinds := 10
	if hands {
		kinds = 16
	}
	switch k := s.rng.IntN(kinds); {
	case k < 7:
		mode := modes[s.rng.IntN(len(modes))]
		s.log("%s is %q", n.name, mode)
		n.set(mode)
	case k == 7: // everybody at once: the store is down
		mode := modes[s.rng.IntN(len(modes))]
		s.log("all are %q", mode)
		for _, n := range s.nodes {
			n.set(mode)
		}
	case k == 8 && len(s.nodes) < 2*simNodes:
		s.start()
	case k == 9:
		s.log("%s stops", n.name)
		n.cancel() // in order, or as far as its faults allow
	case k < 12:
		s.byHand(elect.KindLock, func(d elect.Doc) elect.Change { return elect.Change{Op: elect.Delete, IfRev: d.Rev, Doc: d} })
	case k == 12:
		s.byHand(elect.KindLock, func(d elect.Doc) elect.Change { // given to nobody
			c := elect.Change{IfRev: d.Rev, Doc: d}
			c.Doc.Rev, c.Doc.Session, c.Doc.Stamp = d.Rev+1, "", elect.Stamp{Session: "hand", Seq: d.Rev}
			return c
		})
	case k == 13:
		s.byHand(elect.KindSession, func(d elect.Doc) elect.Change { return elect.Change{Op: elect.Delete, IfRev: d.Rev, Doc: d} })
	case k == 14:
		s.byHand(elect.KindMember, func(d elect.Doc) elect.Change { return elect.Change{Op: elect.Delete, IfRev: d.Rev, Doc: d} })
	case k == 15:
		s.byHand(elect.KindSession, func(d elect.Doc) elect.Change {
			c := elect.Change{IfRev: d.Rev, Doc: d}
			c.Doc.Rev, c.Doc.State, c.Doc.Stamp = d.Rev+1, string(elect.Dead), elect.Stamp{Session: "hand", Seq: d.Rev}
			return c
		})
	}
}

// byHand changes one document as an operator would, who goes past the protocol.
func (s *sim) byHand(kind elect.Kind, change func(elect.Doc) elect.Change) {
	res, err := s.store.List(s.t.Context(), kind, elect.Query{})
	if err != nil || len(res.Docs) == 0 {
		return
	}
	d := res.Docs[s.rng.IntN(len(res.Docs))]
	c := change(d)
	if _, err := s.store.Apply(s.t.Context(), c); err != nil {
		s.fail("by hand: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLocked("hand: op %d on %s %s, state %q", c.Op, kind, d.ID, c.Doc.State)
	if kind == elect.KindSession && c.Doc.State == string(elect.Dead) {
		for _, g := range []string{"g", "x"} { // also what it claims before it notices
			for i := range simKeys {
				s.touched[elect.NewKey(g, fmt.Sprint(i))] = time.Now()
			}
		}
	}
	if kind == elect.KindLock {
		s.touched[elect.Key(d.ID)] = time.Now()
	}
}

// healed says what is still wrong: every declared key runs once, under the token that its lock shows.
func (s *sim) healed() string {
	locks, err := s.store.List(s.t.Context(), elect.KindLock, elect.Query{Group: "g"})
	if err != nil {
		return err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(locks.Docs) != simKeys {
		return fmt.Sprintf("%d locks", len(locks.Docs))
	}
	for _, d := range locks.Docs {
		l, err := elect.LockFrom(d)
		if err != nil {
			return err.Error()
		}
		if runs := s.active[l.Key]; len(runs) != 1 || l.Session == "" || runs[l.Instance] == 0 {
			return fmt.Sprintf("%s runs at %v, lock %+v", l.Key, runs, l)
		}
	}
	return ""
}

// play disturbs the cluster for a while, heals it, and looks.
func (s *sim) play(hands bool) {
	time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Millisecond)
	for range 12 + s.rng.IntN(12) {
		s.disturb(hands)
		time.Sleep(time.Duration(s.rng.Int64N(int64(lease))))
	}
	s.log("healed")
	s.start() // at least one is alive
	for _, n := range s.nodes {
		n.set("")
	}
	begin := time.Now()
	for s.healed() != "" {
		if time.Since(begin) > 3*lease {
			s.fail("%v after all was healed: %s", time.Since(begin), s.healed())
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, n := range s.nodes {
		n.cancel()
	}
	for _, n := range s.nodes {
		n.done.Wait()
	}
	owned, err := s.store.List(s.t.Context(), elect.KindLock, elect.Query{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range owned.Docs {
		if d.Session == "" {
			continue
		}
		// Nobody wanted it after its owner's death; whoever does must be free to take it.
		session, err := s.store.Read(s.t.Context(), elect.KindSession, d.Session)
		if err != nil || len(session.Docs) > 0 && session.Docs[0].State != string(elect.Dead) {
			s.fail("%s is still locked by %v after everybody has left: %v", d.ID, session.Docs, err)
		}
	}
	if s.starts < simKeys {
		s.fail("only %d starts", s.starts)
	}
}
