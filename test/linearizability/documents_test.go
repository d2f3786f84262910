package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// database is what a run is made on.
type database struct {
	name       string
	open       func(ctx context.Context) (store.Store, error)
	freshLists bool // List is linearizable, beyond what the contract asks
	loses      bool // it may lose acknowledged writes, and then names another lineage
	lineages   int  // of writes that replies must have named at least
	countsMore bool // an increment may raise a counter by more than one, and each client sees sums of its own
	virtual    bool // time is that of a synctest bubble
}

// opened is what database.open returns of an adapter's own Open: with an error nil, and no interface that holds one.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// mustOpen opens a store, however often the faults that are on prevent it, and closes it at the end of the test.
func (db database) mustOpen(t *testing.T) store.Store {
	t.Helper()
	s, err := db.openPatiently(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func (db database) openPatiently(ctx context.Context) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		s, err := db.open(ctx)
		if err == nil || ctx.Err() != nil {
			return s, err
		}
	}
}

func closeStore(t *testing.T, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// documentRun is clients that use documents together, round after round.
type documentRun struct {
	db       database
	seed     uint64
	clients  []*client
	faults   *injected
	tally    *tally
	lineages map[string]bool // that replies have named
}

// documentClients is how many clients there are, each with a store of its own.
const documentClients = 6

func newDocumentRun(t *testing.T, db database, seed uint64, o odds) *documentRun {
	t.Helper()
	r := &documentRun{db: db, seed: seed, faults: &injected{}, tally: &tally{}, lineages: map[string]bool{}}
	for n := range documentClients {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		db := newUnreliable(db.mustOpen(t), rand.New(rand.NewPCG(seed, uint64(100+n))), o, r.faults)
		t.Cleanup(db.late.Wait) // before the store is closed
		r.clients = append(r.clients, &client{n: n, name: fmt.Sprint("c", n), store: db, random: random})
	}
	return r
}

// run makes rounds until ctx ends or a history is wrong.
func (r *documentRun) run(ctx context.Context) []finding {
	var found []finding
	for n := 0; ctx.Err() == nil && len(found) == 0; n++ {
		found = r.judge(r.play(ctx, n))
	}
	return found
}

// play is one round.
func (r *documentRun) play(ctx context.Context, n int) *round {
	kinds := []driver.Kind{
		driver.KindLock, driver.KindSession, driver.KindValue, driver.KindMember, driver.KindOverride, driver.KindEvent,
		driver.KindMutex, driver.KindRequest,
	}
	kind := kinds[n%len(kinds)]
	now := &round{group: fmt.Sprint("g", n), calls: 60, ledger: ledger{sent: map[driver.WriterID]driver.Doc{}}}
	for i := range 40 {
		d := &document{kind: kind, id: fmt.Sprintf("g%d/%02d", n, i), deleted: i%4 == 3}
		if i%10 == 9 {
			d.kind = driver.KindGroup
		}
		now.docs = append(now.docs, d)
	}
	var wg sync.WaitGroup
	for _, c := range r.clients {
		c.round = now
		wg.Go(func() { c.run(ctx) })
	}
	wg.Wait()
	return now
}

// judge decides on all histories of a round.
func (r *documentRun) judge(played *round) []finding {
	var found []finding
	for _, d := range played.docs {
		if len(d.history) == 0 {
			continue
		}
		r.tally.histories.Add(1)
		r.tally.operations.Add(int64(len(d.history)))
		for _, a := range d.history {
			if a.lineage != "" {
				r.lineages[a.lineage] = true
			}
			if a.verb != reads && a.verb != lists && a.status == driver.Unknown {
				r.tally.unknown.Add(1)
			}
		}
		name := fmt.Sprintf("%s: %s %s", r.db.name, d.kind, d.id)
		for _, p := range d.problems {
			found = append(found, finding{text: name + ": " + p + "\n" + timeline(d.lines())})
		}
		found = append(found, d.judge(name, r.db)...)
	}
	return found
}

func (d *document) judge(name string, db database) []finding {
	freshLists := db.freshLists
	switch {
	case db.loses && d.kind == driver.KindGroup:
		return judge(lossyCounterModel, name, lossyCounterSteps(d.history, freshLists), d.lines())
	case db.loses:
		return judge(lossyDocument, name, lossySteps(d.history, freshLists), d.lines())
	}
	if d.kind == driver.KindGroup && db.countsMore {
		return d.judgeSums(name)
	}
	if d.kind == driver.KindGroup {
		return judge(counterModel, name, counterSteps(d.history, freshLists), d.lines())
	}
	return judge(documentModel, name, documentSteps(d.history, freshLists), d.lines())
}

func (d *document) lines() []line {
	lines := make([]line, 0, len(d.history))
	for _, a := range d.history {
		lines = append(lines, line{a.call, a.end, fmt.Sprint("c", a.client), a.String()})
	}
	return slices.Clip(lines)
}
