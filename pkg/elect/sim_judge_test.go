package elect_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// begin judges a run that begins.
func (s *sim) begin(n *simNode, l *elect.Lease) {
	valid := l.Valid() // may stand still while the node is frozen: outside the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.isGone() {
		return
	}
	key := l.Key()
	s.starts++
	if !valid && !n.icy() {
		s.failLocked("a run starts without a valid lease", "%s starts %s", n.name, key)
	}
	for other := range s.active[key] {
		if !other.icy() && time.Since(s.touched[key]) > afterHands {
			s.failLocked("two runs of one key", "%s starts %s while %s runs it", n.name, key, other.name)
		}
	}
	s.rises(n, key, l.Token())
	if s.active[key] == nil {
		s.active[key] = map[*simNode]int64{}
	}
	s.active[key][n] = l.Token()
	s.logLocked("%s starts %s under %d", n.name, key, l.Token())
	s.capHolds(n, key.Group())
}

func (s *sim) started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

// capHolds asks that a node runs no more keys of the group than it may. Keys that are stopping count.
func (s *sim) capHolds(n *simNode, group string) {
	if group != "g" {
		return
	}
	count := 0
	for key, runs := range s.active {
		if _, ok := runs[n]; ok && key.Group() == group {
			count++
		}
	}
	if most := n.mostAllowed(); count > most {
		s.failLocked("a cap is exceeded", "%s runs %d keys of %s, allowed are %d", n.name, count, group, most)
	}
}

func (s *sim) advanced(n *simNode, l *elect.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !n.isGone() {
		s.rises(n, l.Key(), l.Token())
	}
}

// rises checks a new token. No two starts ever share one. That each is larger than all before it cannot always be
// asked. No live session may have been ended manually, and no replica may have been frozen between a claim and its
// start. The last claim of such a replica may start late, under the smaller token that a sink then refuses.
func (s *sim) rises(n *simNode, key elect.Key, token int64) {
	late := time.Since(s.touched[key]) <= afterHands || n.icy()
	if token == s.tokens[key] || token < s.tokens[key] && !late {
		s.failLocked("a token does not rise", "%s has token %d of %s after %d", n.name, token, key, s.tokens[key])
	}
	s.tokens[key] = max(token, s.tokens[key])
}

func (s *sim) end(n *simNode, key elect.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active[key], n)
	if !n.isGone() {
		s.logLocked("%s ended %s", n.name, key)
	}
}

// nothingOld asks, some moments after a node was thawed, that no key runs twice.
func (s *sim) nothingOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, runs := range s.active {
		awake := 0
		for n := range runs {
			if !n.icy() {
				awake++
			}
		}
		if awake > 1 && time.Since(s.touched[key]) > afterHands {
			s.failLocked("an old run outlives the thaw of its replica", "%s runs %d times", key, awake)
		}
	}
}

// fail notes what must not be: what in words that are the same in every run of a script, and the rest.
func (s *sim) fail(what, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(what, format, args...)
}

func (s *sim) failLocked(what, format string, args ...any) {
	if !slices.Contains(s.wrong, what) {
		s.wrong = append(s.wrong, what)
	}
	s.logLocked("WRONG: "+what+": "+format, args...)
}

func (s *sim) logLocked(format string, args ...any) {
	s.trace = append(s.trace, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (s *sim) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLocked(format, args...)
}

// healed says what is still wrong: every declared key runs once, under the token that its lock shows.
func (s *sim) healed() string {
	for _, key := range s.list.keys() {
		locks, err := s.store.Read(s.t.Context(), driver.KindLock, string(key))
		if err != nil {
			return err.Error()
		}
		if len(locks.Docs) == 0 {
			return fmt.Sprintf("%s has no lock", key)
		}
		l, err := record.LockFrom(locks.Docs[0])
		if err != nil {
			return err.Error()
		}
		if !s.runsOnce(l) {
			return fmt.Sprintf("%s does not run once, lock %+v", key, l)
		}
	}
	return ""
}

// views is what each node thinks of each key.
func (s *sim) views() string {
	var lines []string
	for _, n := range s.nodes {
		v := n.elector.Cluster().View()
		line := fmt.Sprintf("%s, session %.4s, open %v, stale %v:", n.name, v.Session, v.Open, v.Stale)
		for _, key := range s.list.keys() {
			l, held := v.Lock(key), v.Held[key]
			line += fmt.Sprintf(" %s rev %d of %.4s next %.4s held %d,", key, l.Rev, l.Session, l.Next, held.Phase)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (s *sim) runsOnce(l record.Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, token := range s.active[l.Key] {
		return len(s.active[l.Key]) == 1 && l.Session != "" && n.name == l.Instance && token > 0
	}
	return false
}

// left asks, once everybody has gone, that no lock names a session that is not dead.
func (s *sim) left() {
	owned, err := s.store.List(s.t.Context(), driver.KindLock, driver.Query{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range owned.Docs {
		if d.Session == "" {
			continue
		}
		// No one wanted it after its owner's death; anyone who does must be free to take it.
		session, err := s.store.Read(s.t.Context(), driver.KindSession, d.Session)
		if err != nil || len(session.Docs) > 0 && session.Docs[0].State != string(record.Dead) {
			s.fail("a lock names a live session when everybody has left", "%s: %v: %v", d.ID, session.Docs, err)
		}
	}
}
