package quorum_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/memory"
	quorumstore "github.com/shardctl/shardctl/pkg/store/quorum"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
)

// memServers is servers in memory, of which some may be away.
type memServers struct {
	mu      sync.Mutex
	servers []*memory.Store
	clients [][]*memory.Store
	away    []bool
	timeout time.Duration                    // of calls, of clients that are opened; zero means 10 s
	fault   func(memory.Call) memory.Verdict // of clients that are opened
}

// newMemory is servers of a quorum that was set up.
func newMemory(n int) *memServers {
	m := blank(n)
	if n == 3 || n == ballot.MaxServers {
		if _, err := m.init(context.Background()); err != nil {
			panic(err)
		}
	}
	return m
}

// blank is servers that were not set up.
func blank(n int) *memServers {
	m := &memServers{clients: make([][]*memory.Store, n), away: make([]bool, n)}
	for range n {
		m.servers = append(m.servers, memory.New())
	}
	return m
}

// open makes one more client of all of them.
func (m *memServers) open(ctx context.Context) (driver.Store, error) {
	s, err := m.quorum(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m *memServers) quorum(ctx context.Context) (*quorumstore.Store, error) {
	return quorumstore.Open(ctx, m.options())
}

func (m *memServers) init(ctx context.Context) (bool, error) {
	return quorumstore.Init(ctx, m.options())
}

func (m *memServers) options() quorumstore.Options {
	o := quorumstore.Options{Timeout: cmp.Or(m.timeout, 10*time.Second)}
	for i := range m.servers {
		o.Servers = append(o.Servers, quorumstore.Server{
			Name: fmt.Sprint("memory ", i),
			Open: func(context.Context) (driver.Store, error) { return m.client(i), nil }, //nolint:contextcheck // it has none
		})
	}
	return o
}

// spoil overwrites the records of a document, as something else does that writes to the servers.
func (m *memServers) spoil(ctx context.Context, kind driver.Kind, id string) error {
	for _, s := range m.servers {
		if err := spoil(ctx, s, kind, id); err != nil {
			return err
		}
	}
	return nil
}

// spoil overwrites what one server has, or will have: it may be slower than the others.
func spoil(ctx context.Context, s driver.Store, kind driver.Kind, id string) error {
	for {
		found, err := s.Read(ctx, kind, id)
		if err != nil {
			return err
		}
		d := driver.Doc{Kind: kind, ID: id}
		if len(found.Docs) > 0 {
			d = found.Docs[0]
		}
		c := driver.Change{IfRev: d.Rev, Doc: d}
		c.Doc.Rev, c.Doc.WriterID = max(d.Rev, found.Floor)+1, driver.WriterID{Session: "by hand", Seq: d.Rev + 1}
		outs, err := s.Apply(ctx, c)
		if err != nil || outs[0].Status == driver.Applied || outs[0].Status == driver.Unknown {
			return errors.Join(err, outs[0].Err)
		}
	}
}

func (m *memServers) client(i int) *memory.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.servers[i].Client()
	m.clients[i] = append(m.clients[i], c)
	m.set(c, m.away[i])
	return c
}

func (m *memServers) set(c *memory.Store, away bool) {
	if !away {
		c.Fault(m.fault)
		return
	}
	c.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
}

// leave has a server not answer; back ends that.
func (m *memServers) leave(servers ...int) { m.turn(true, servers) }
func (m *memServers) back(servers ...int)  { m.turn(false, servers) }

func (m *memServers) turn(away bool, servers []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range servers {
		m.away[i] = away
		for _, c := range m.clients[i] {
			m.set(c, away)
		}
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	many := 2000
	if suites.Chosen(t, suites.Models) {
		many = 0
	}
	storetest.Run(t, func(*testing.T) storetest.Database {
		m := newMemory(3)
		m.timeout = time.Minute // on a busy machine servers in memory are slow as well
		return storetest.Database{Open: m.open, Spoil: m.spoil, CountsMore: true, Many: many}
	})
}

// With a minority away the whole suite passes, also when they are away from one client only after another.
func TestStoreWithoutAMinority(t *testing.T) {
	suites.Need(t, suites.Models, "the suite of stores once more, on five servers")
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		m := newMemory(5)
		m.timeout = time.Minute
		m.leave(1, 3)
		return storetest.Database{Open: m.open, Spoil: m.spoil, CountsMore: true}
	})
}
