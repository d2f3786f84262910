package linearizability

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/suites"
)

// memoryDatabase is a store without any faults of its own, so that those of these tests are the only ones.
func memoryDatabase(spoil func(store.Store) store.Store) database {
	db := memory.New()
	return database{name: "memory", freshLists: true, open: func(context.Context) (store.Store, error) {
		return spoil(db.Client()), nil //nolint:contextcheck // it has none
	}}
}

// dice are thrown by many at once.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

// below is a number below n.
func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// careless writes whatever the revision is. It is slow, so that others write meanwhile.
type careless struct {
	store.Store
	only driver.Kind // empty: all
	dice *dice
}

func (s careless) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	time.Sleep(time.Duration(s.dice.below(5_000)) * time.Microsecond)
	changes = append([]driver.Change(nil), changes...)
	for i, c := range changes {
		if c.Op != driver.Put || s.only != "" && s.only != c.Doc.Kind {
			continue
		}
		res, err := s.Read(ctx, c.Doc.Kind, c.Doc.ID)
		if err == nil && len(res.Docs) == 1 && res.Docs[0].Rev < c.Doc.Rev {
			changes[i].IfRev = res.Docs[0].Rev
		}
	}
	return s.Store.Apply(ctx, changes...)
}

// forgetful answers some reads from what it saw before.
type forgetful struct {
	store.Store
	dice *dice
	mu   sync.Mutex
	seen map[string]driver.Doc
}

func (s *forgetful) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	res, err := s.Store.Read(ctx, kind, ids...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range res.Docs {
		if old, ok := s.seen[d.ID]; ok && s.dice.below(20) == 0 {
			res.Docs[i] = old
		} else {
			s.seen[d.ID] = d
		}
	}
	return res, err
}

// hopeful takes an unknown outcome for a good one.
type hopeful struct{ store.Store }

func (s hopeful) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs, err := s.Store.Apply(ctx, changes...)
	for i := range outs {
		if outs[i].Status == driver.Unknown {
			outs[i] = driver.Outcome{Status: driver.Applied}
		}
	}
	return outs, err
}

// gloomy says that what is unknown was refused.
type gloomy struct{ store.Store }

func (s gloomy) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs, err := s.Store.Apply(ctx, changes...)
	for i, c := range changes {
		if len(outs) == 0 || outs[i].Status != driver.Unknown || c.Op != driver.Put {
			continue
		}
		res, err := s.Read(context.WithoutCancel(ctx), c.Doc.Kind, c.Doc.ID)
		if err == nil && len(res.Docs) == 1 && res.Docs[0].Rev != c.IfRev {
			outs[i] = driver.Outcome{Status: driver.Refused, Doc: &res.Docs[0]}
		}
	}
	return outs, err
}

// spoil breaks a store.
type spoil func(store.Store, *dice) store.Store

// database is one in virtual time whose clients are spoiled.
func (s spoil) database(seed uint64) database {
	d := &dice{random: rand.New(rand.NewPCG(seed, 8000))}
	db := memoryDatabase(func(inner store.Store) store.Store { return s(inner, d) })
	db.virtual = true
	return db
}

// soon has each call take a moment, so that calls meet also where time costs nothing.
var soon = odds{delay: 1, longest: time.Millisecond}

// rejected says whether porcupine has rejected a history, beside what else was found.
func rejected(found []finding) bool {
	return slices.ContainsFunc(found, func(f finding) bool { return f.draw != nil })
}

// wantFound wants porcupine to have rejected a history, or nothing to have been found.
func wantFound(t *testing.T, seed uint64, found []finding, broken bool) {
	t.Helper()
	switch {
	case broken && !rejected(found):
		t.Errorf("seed %d: broken, and porcupine has accepted every history", seed)
	case !broken:
		complain(t, seed, found)
	}
}

// Stores that are broken, each in its own way, are found out by a recorded run; the one that is not, is not.
func TestBrokenStores(t *testing.T) {
	t.Parallel()
	// The faults come from below, so that what is broken has something to get wrong.
	faulty := func(s store.Store) store.Store {
		return newUnreliable(
			s, rand.New(rand.NewPCG(1, 2)),
			odds{loseRequest: 0.05, loseAnswer: 0.05, late: 0.05, longest: time.Millisecond}, &injected{},
		)
	}
	for name, tc := range map[string]struct {
		spoil  spoil
		broken bool
	}{
		"sound": {func(s store.Store, _ *dice) store.Store { return faulty(s) }, false},
		"ignores the revision": {
			func(s store.Store, d *dice) store.Store { return careless{Store: faulty(s), dice: d} }, true,
		},
		"reads from a stale cache": {func(s store.Store, d *dice) store.Store {
			return &forgetful{Store: faulty(s), dice: d, seen: map[string]driver.Doc{}}
		}, true},
		"says applied for what is unknown": {
			func(s store.Store, _ *dice) store.Store { return hopeful{faulty(s)} }, true,
		},
		"says refused for what is unknown": {
			func(s store.Store, _ *dice) store.Store { return gloomy{faulty(s)} }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := seed(t)
			synctest.Test(t, func(t *testing.T) {
				r := newDocumentRun(t, tc.spoil.database(seed), seed, soon)
				var found []finding
				for n := 0; n < 12 && len(found) == 0; n++ {
					found = r.judge(r.play(t.Context(), n))
				}
				wantFound(t, seed, found, tc.broken)
				t.Logf("%v", r.tally)
			})
		})
	}
}

// hasty shows the sessions of others as dead now and then.
type hasty struct {
	store.Store
	own  atomic.Pointer[string]
	dice *dice
}

func (s *hasty) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	for _, c := range changes {
		if c.Doc.Kind == driver.KindSession && c.IfRev == 0 {
			s.own.Store(&c.Doc.ID)
		}
	}
	return s.Store.Apply(ctx, changes...)
}

func (s *hasty) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	res, err := s.Store.List(ctx, kind, q)
	own := s.own.Load()
	for i, d := range res.Docs {
		if kind == driver.KindSession && own != nil && d.ID != *own && s.dice.below(30) == 0 {
			res.Docs[i].State = "dead"
		}
	}
	return res, err
}

// Electors on a store that lies about what the lock hangs on run one key twice, and that is found out.
func TestBrokenLocks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil  spoil
		broken bool
	}{
		"sound": {func(s store.Store, _ *dice) store.Store { return s }, false},
		"ignores the revision": {
			func(s store.Store, d *dice) store.Store { return careless{Store: s, dice: d} }, true,
		},
		"ignores the revision of values": {
			func(s store.Store, d *dice) store.Store { return careless{s, driver.KindValue, d} }, true,
		},
		"ignores the revision of mutexes": {
			func(s store.Store, d *dice) store.Store { return careless{s, driver.KindMutex, d} }, true,
		},
		"shows live sessions as dead": {
			func(s store.Store, d *dice) store.Store { return &hasty{Store: s, dice: d} }, true,
		},
		"says applied for what is unknown": {func(s store.Store, _ *dice) store.Store {
			return hopeful{newUnreliable(s, rand.New(rand.NewPCG(1, 2)), odds{loseRequest: 0.05}, &injected{})}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "sound" && name != "ignores the revision" {
				suites.Need(t, suites.Models, "seconds of histories")
			}
			t.Parallel()
			seed := seed(t)
			synctest.Test(t, func(t *testing.T) {
				r := newLockRun(tc.spoil.database(seed), seed, soon)
				r.length = 2 * time.Second
				var found []finding
				for n := 0; n == 0 || tc.broken && n < 10 && !rejected(found); n++ {
					found = r.round(t, n)
				}
				wantFound(t, seed, found, tc.broken)
				t.Logf("%v; mutexes: %v", r.tally, r.turns)
			})
		})
	}
}
