//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	// patience bounds the recovery after the last fault and the orderly end. How long they take is printed.
	patience = 60 * time.Second
	// tick is how often the supervisor looks.
	tick = 100 * time.Millisecond
)

// backend is a store that can be taken away and given back.
type backend interface {
	URI() string
	Documents() documentStore
	// Begin and End do a fault of the store, and say more about it. They are called one after the other.
	Begin(ctx context.Context, f Fault) (said string, err error)
	End(ctx context.Context, f Fault) (said string, err error)
	// Heal makes everything well.
	Heal(ctx context.Context) error
}

// trial is one run of one seed on one store. Everything but the store's work happens in one goroutine.
type trial struct {
	ctx     context.Context //nolint:containedctx // the test's, for everything a chaos test does
	store   string
	bins    harness.Binaries
	records string
	backend backend
	far     *endpoint
	apps    applications
	cluster *harness.Cluster
	slots   []*slot
	lists   lists
	line    *Timeline

	storeWork chan func()

	findings
	times
}

// findings are what a trial did and saw, beside its time line.
type findings struct {
	done        map[Kind]int
	stalls      history.Watch
	starved     int // replicas that ended because the machine stood still
	freezes     []*freeze
	unexplained []string // ends of replicas that no fault had hit
	failures    []string // other things that must not be

	mu        sync.Mutex
	deletions []deletion
}

// times are when a trial came to its last parts.
type times struct {
	calm      history.Instant // when the last fault had ended
	recovered history.Instant // when everything was as it should be again
	ended     history.Instant
}

func newTrial(tb testing.TB, store string, bins harness.Binaries, dir string) *trial {
	tb.Helper()
	s := &trial{
		ctx: tb.Context(), store: store, bins: bins, records: filepath.Join(dir, "records"), far: newEndpoint(tb),
		apps:  newApplications(tb),
		line:  NewTimeline(),
		lists: lists{revision: 1, extra: 2}, storeWork: make(chan func(), 1000),
		findings: findings{done: map[Kind]int{}},
	}
	tb.Cleanup(s.far.Close)
	if store == MongoDB {
		s.backend = newMongo(tb)
	} else {
		s.backend = newSQLite(tb, dir)
	}
	c, err := harness.NewCluster(bins, dir, harness.Options{StoreURI: s.backend.URI(), Lease: Lease})
	if err != nil {
		tb.Fatal(err)
	}
	s.cluster = c
	tb.Cleanup(c.Close)
	for i := range Slots {
		s.slots = append(s.slots, &slot{name: fmt.Sprintf("r%d", i+1), want: i < Base})
	}
	return s
}

// run brings the replicas up, lets the faults rain, waits until all is well, and ends in order. An error is that the
// chaos test could not be done or that it did not become well; the judge says the rest.
func (s *trial) run(faults []Fault) error {
	defer func() { s.ended = history.Now() }()
	var watching sync.WaitGroup
	watch, stop := context.WithCancel(s.ctx)
	watching.Go(func() { s.stalls.Run(watch) })
	defer watching.Wait()
	defer stop()
	if err := s.await("everything to run at the start", s.settled); err != nil {
		return err
	}
	s.line.Note("---- the chaos test begins")
	if err := s.rain(faults); err != nil {
		return err
	}
	if err := s.becomeWell(); err != nil {
		return err
	}
	s.line.Note("---- all is well")
	return s.finish()
}

// event is the begin or the end of a fault.
type event struct {
	at time.Duration
	do func()
}

// rain does the faults at their times, and heals what may be left.
func (s *trial) rain(faults []Fault) error {
	var events []event
	for _, f := range faults {
		events = append(events, event{f.At, func() { s.begin(f) }})
		if f.For > 0 {
			events = append(events, event{f.At + f.For, func() { s.end(f) }})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	var worker sync.WaitGroup
	worker.Go(func() {
		for work := range s.storeWork {
			work()
		}
	})
	defer worker.Wait()
	defer close(s.storeWork)
	began := history.Now()
	for _, e := range events {
		for {
			if err := s.tend(); err != nil {
				return err
			}
			left := e.at - history.Now().Sub(began)
			if left <= 0 {
				break
			}
			time.Sleep(min(left, tick))
		}
		e.do()
	}
	s.calm = history.Now()
	s.line.Note("---- the chaos test is over")
	return s.heal()
}

// heal waits until the store's work is done, and ends what the schedule has not.
func (s *trial) heal() error {
	healed := make(chan error, 1)
	s.storeWork <- func() {
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		defer cancel()
		healed <- s.backend.Heal(ctx)
	}
	for {
		select {
		case err := <-healed:
			return err
		case <-time.After(tick):
			if err := s.tend(); err != nil {
				return err
			}
		}
	}
}

// await repeats a check until it passes, and tends the replicas meanwhile.
func (s *trial) await(what string, check func() error) error {
	for began := history.Now(); ; time.Sleep(tick) {
		if err := s.tend(); err != nil {
			return err
		}
		err := check()
		if err == nil {
			return nil
		}
		if history.Now().Sub(began) > patience {
			return fmt.Errorf("waited %v for %s: %w", patience, what, err)
		}
	}
}

// lasting is how long all must stay well before it counts: what a fault has just ended may still look alive.
const lasting = Lease / 2

// becomeWell waits until all is well and stays so, and notes since when.
func (s *trial) becomeWell() error {
	var since history.Instant
	return s.await("everything to run again, and go on", func() error {
		if err := s.settled(); err != nil {
			since = 0
			return err
		}
		now := history.Now()
		if since == 0 {
			since = now
		}
		if now.Sub(since) < lasting {
			return errors.New("it has not lasted yet")
		}
		s.recovered = since
		return nil
	})
}

// finish ends all replicas in order and sees to it that nothing is left of them.
func (s *trial) finish() error {
	var running []*slot
	for _, p := range s.slots {
		p.want = false
		if p.running() {
			p.hits = append(p.hits, "the end")
			if _, err := p.replica.Kill(harness.Guard, syscall.SIGTERM); err != nil {
				return err
			}
			running = append(running, p)
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for _, p := range running {
		state, err := p.replica.Wait(ctx)
		if err != nil {
			return fmt.Errorf("the end: %w", err)
		}
		if !state.Success() {
			s.failures = append(
				s.failures, fmt.Sprintf("%s, asked to end in order: %v\n%s", p.name, state, p.replica.LogTail(20)),
			)
		}
	}
	return s.await("nothing to be left", func() error {
		if left := s.cluster.Leftovers(); len(left) > 0 {
			return fmt.Errorf("processes are left: %v", left)
		}
		return nil
	})
}

// settled says whether, by the records alone, exactly the keys of the list run, once each, spread evenly over the
// replicas that ought to live. Every http task must have a remote lease.
func (s *trial) settled() error {
	h, err := s.cluster.History()
	if err != nil {
		return err
	}
	counts, perApp := map[string]int{}, map[string]int{}
	for _, p := range s.slots {
		if p.want {
			counts[p.name], perApp[p.name] = 0, 0
		}
		if p.want != p.running() {
			return fmt.Errorf("%s: running %v, want %v", p.name, p.running(), p.want)
		}
	}
	owners := h.Owners()
	if err := errors.Join(take(owners, s.lists.commands(), counts), take(owners, s.apps.keys(), perApp)); err != nil {
		return err
	}
	if len(owners) > 0 {
		return fmt.Errorf("these run and are on no list: %v", owners)
	}
	if missing := s.far.missing(callKeys()); len(missing) > 0 {
		return fmt.Errorf("the HTTP endpoint does not work for: %v", missing)
	}
	if len(s.apps.keys()) == 0 {
		return even(counts)
	}
	return errors.Join(even(counts), even(perApp))
}

// take removes the runs of keys, and counts them by the instances that ought to live.
func take(owners map[string]history.Run, keys []string, counts map[string]int) error {
	for _, key := range keys {
		run, runs := owners[key]
		if !runs {
			return fmt.Errorf("%s does not run", key)
		}
		if _, lives := counts[run.Instance]; !lives {
			return fmt.Errorf("%v runs where no replica ought to live", run)
		}
		counts[run.Instance]++
		delete(owners, key)
	}
	return nil
}

func even(counts map[string]int) error {
	least, most := -1, 0
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	if len(counts) == 0 {
		return errors.New("no replica ought to live")
	}
	if most-least > 1 {
		return fmt.Errorf("uneven: %v", counts)
	}
	return nil
}
