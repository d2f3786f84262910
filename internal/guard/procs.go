package guard

import "sync"

// procSet is the commands of a worker that have not ended yet. Its methods may be called concurrently.
type procSet struct {
	mu   sync.Mutex
	next uint64
	byID map[uint64]*proc
}

func newProcSet() *procSet { return &procSet{byID: map[uint64]*proc{}} }

// register makes a command that is about to be started over conn.
func (s *procSet) register(conn *conn) *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	p := &proc{
		conn: conn, id: s.next,
		answered: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	s.byID[p.id] = p
	return p
}

func (s *procSet) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// progress passes on what became of a command, which is over with the last of it.
func (s *procSet) progress(id uint64, b body, last bool) {
	s.mu.Lock()
	p := s.byID[id]
	if last {
		delete(s.byID, id)
	}
	s.mu.Unlock()
	if p != nil {
		p.progress(b)
	}
}

// lose ends all commands as far as is known, and returns their groups.
func (s *procSet) lose() (groups map[int]bool) {
	s.mu.Lock()
	lost := s.byID
	s.byID = map[uint64]*proc{}
	s.mu.Unlock()
	groups = map[int]bool{}
	for _, p := range lost {
		if pid := p.PID(); pid > 0 {
			groups[pid] = true
		}
		p.lost()
	}
	return groups
}
