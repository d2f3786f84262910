package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// maxRecords bounds what is remembered of one server, so that a write needs no read before it.
const maxRecords = 20_000

var (
	errAway   = errors.New("the server does not count now")
	errLost   = errors.New("the server has no identity: it lost its disk, or is another one")
	errBusy   = errors.New("the server has not answered for a while")
	errFought = errors.New("others change the record again and again")
	// errRestarted is for stores that say when they may have forgotten something: see Lineage of [driver.Reply].
	errRestarted = errors.New("the server was started again, or another one has taken its place")
)

// server is one of the stores, with what this process knows of its records. Its methods may be called concurrently.
type server struct {
	index int
	spec  Server
	pace  pace

	mu      sync.Mutex
	client  driver.Store // nil: not connected
	lineage string       // of its store, when its identity was read last
	reopen  bool         // the client is to be opened again: settings are looked at then
	id      ballot.Identity
	counts  bool
	trouble error         // why it does not count
	leave   chan struct{} // wakes who tends it, when it is found not to count any more
	failed  chan struct{} // wakes who tends it, when a call has failed
	known   map[key]record
	floors  map[driver.Kind]int64
}

func newServer(index int, spec Server) *server {
	return &server{
		index: index, spec: spec, leave: make(chan struct{}, 1), failed: make(chan struct{}, 1),
		known: map[key]record{}, floors: map[driver.Kind]int64{}, trouble: errAway,
	}
}

// follows takes a server out of service whose store follows another lineage: it may have other settings by now.
func (s *server) follows(lineage string) error {
	s.mu.Lock()
	changed := lineage != s.lineage
	s.mu.Unlock()
	if !changed {
		return nil
	}
	s.doubt(errRestarted, true)
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, errRestarted)
}

// connected is the client, whether the server counts or not; nil: it is not connected.
func (s *server) connected() driver.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// serving is the client of a server that counts.
func (s *server) serving() (driver.Store, ballot.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.counts {
		return nil, ballot.Identity{}, fmt.Errorf("%w: %w", driver.ErrUnavailable, s.trouble)
	}
	return s.client, s.id, nil
}

// fail says that a call has failed, and why. A client that finds another store in the place of its own refuses all that
// it is asked from then on. Whether that store counts is for its identity in the quorum to say, which a new client reads.
func (s *server) fail(why error) {
	if errors.Is(why, driver.ErrOther) {
		s.doubt(why, true)
		return
	}
	wake(s.failed)
}

func wake(waiting chan struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// doubt takes a server out of service until its identity was looked at again, or its client was opened again as well.
func (s *server) doubt(why error, reopen bool) {
	s.mu.Lock()
	s.reopen = s.reopen || reopen
	s.counts, s.trouble = false, why
	clear(s.known)
	s.mu.Unlock()
	wake(s.leave)
}

func (s *server) recall(k key) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.known[k]
	return r, ok
}

// remember keeps what a server has shown. An older answer does not take the place of a newer one.
func (s *server) remember(k key, r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.known[k]; ok && was.rev > r.rev {
		return
	}
	if len(s.known) >= maxRecords {
		for old := range s.known {
			delete(s.known, old)
			break
		}
	}
	s.known[k] = r
}

func (s *server) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, k)
}

// snapshot is what a server shows of documents of one kind.
type snapshot struct {
	driver.Reply

	meta    meta
	records map[string]record  // those that there are
	foreign map[string]foreign // what is in the place of records
}

// foreign is a document of a server that is no record of the quorum: somebody has edited it, or something else writes
// there. What the server has promised and accepted is not known, so it says nothing of this document.
type foreign struct {
	rev int64 // 0: the server's own store cannot read it either, and lets a creation take its place
	err error
}

// look reads records of one kind, and the server's identity with them.
func (s *server) look(ctx context.Context, kind driver.Kind, ids []string) (snapshot, error) {
	client, want, err := s.serving()
	if err != nil {
		return snapshot{}, err
	}
	asked := make([]string, 0, len(ids)+1)
	reply, err := client.Read(ctx, kind, append(append(asked, ids...), metaID)...)
	if err != nil {
		return snapshot{}, err
	}
	if err := s.follows(reply.Lineage); err != nil {
		return snapshot{}, err
	}
	seen := snapshot{Reply: reply, records: make(map[string]record, len(reply.Docs)), foreign: map[string]foreign{}}
	for _, u := range reply.Unreadable {
		seen.foreign[u.ID] = foreign{err: u.Err}
		s.forget(key{kind, u.ID})
	}
	identified := false
	for _, d := range reply.Docs {
		if d.ID == metaID {
			if seen.meta, err = parseMeta(d); err != nil {
				return snapshot{}, err
			}
			identified = seen.meta.Identity == want
			s.noteFloor(kind, seen.meta.Floor)
			continue
		}
		if isCounter(d) {
			continue
		}
		if is, part := seen.foreign[d.ID]; part { // not all of it can be read
			is.rev = d.Rev
			seen.foreign[d.ID] = is
			continue
		}
		r, err := parse(d)
		if err != nil {
			seen.foreign[d.ID] = foreign{d.Rev, err}
			s.forget(key{kind, d.ID})
			continue
		}
		seen.records[d.ID] = r
		s.remember(key{kind, d.ID}, r)
	}
	if !identified {
		s.doubt(errLost, false)
		return snapshot{}, fmt.Errorf("%w: %w", driver.ErrUnavailable, errLost)
	}
	return seen, nil
}

func (s *server) noteFloor(kind driver.Kind, floor int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floors[kind] = max(s.floors[kind], floor)
}

// floor is the largest that the server has shown.
func (s *server) floor(kind driver.Kind) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floors[kind]
}

// isCounter says whether a document is one by which a server counts.
func isCounter(d driver.Doc) bool { return d.Kind == driver.KindGroup && groupOf(d.ID) != d.ID }

// inspect is what a server says of itself. That it does not count is among the problems.
func (s *server) inspect(ctx context.Context) []driver.Setting {
	name := fmt.Sprintf("server %d", s.index+1)
	client, _, err := s.serving()
	var own driver.Inspection
	if err == nil {
		own, err = store.Inspect(ctx, client)
	}
	if err != nil {
		return []driver.Setting{{Name: name, Value: s.spec.Name + ", does not count", Holds: true}}
	}
	all := []driver.Setting{{Name: name, Value: s.spec.Name, Holds: true}}
	if own.Server != "" {
		all[0].Value += ", " + own.Server
	}
	for _, setting := range own.Settings {
		setting.Name = name + " " + setting.Name
		all = append(all, setting)
	}
	return all
}
