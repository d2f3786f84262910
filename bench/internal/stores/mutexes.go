//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	mutexName   = "bench"
	racers      = 10 // processes
	raceCallers = 4  // of each
	manyHeld    = 1_000
)

// Mutexes measures locks of package mutex on MongoDB and etcd, or on the stores that are chosen: the hand-over to a
// waiter in another process, turns a second fair and unfair, and what is written while locks are held.
func Mutexes(ctx context.Context, b *lab.Lab) error {
	names := b.Stores
	if len(names) == 0 {
		names = []string{"mongodb", "etcd"}
	}
	chosen, err := choose(kinds(), names)
	if err != nil {
		return err
	}
	for _, k := range chosen {
		if err := k.measureMutexes(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

func (k kind) measureMutexes(ctx context.Context, b *lab.Lab) error {
	s, err := k.open(ctx, b)
	if err != nil {
		return err
	}
	defer s.close()
	for _, part := range []func(context.Context, *lab.Lab, *server, string) error{
		measureHandOvers, measureRaces, measureHeld,
	} {
		uri, err := s.fresh(ctx)
		if err != nil {
			return err
		}
		if err := setUp(ctx, uri); err != nil {
			return err
		}
		if err := part(ctx, b, s, uri); err != nil {
			return err
		}
	}
	return nil
}

// here are locks of this process.
func here(ctx context.Context, uri string) (*mutex.Locks, error) {
	return mutex.Open(ctx, uri, func(c *elect.Config) { c.LeaseDuration = lab.DefaultLease })
}

// measureHandOvers has another process wait each time. A hand-over is a durable write that releases the mutex, its
// notification, and a durable write that claims it. So it cannot be shorter than a notification, counted from the
// sending of its write, and a write.
func measureHandOvers(ctx context.Context, b *lab.Lab, s *server, uri string) (err error) {
	f, err := measureFloor(ctx, b, s, uri)
	if err != nil {
		return err
	}
	unit := f.write + f.notice
	b.Note("  "+s.name, "write p50 %s, p99 %s; notification p50 %s from the sending of its write",
		lab.MS(f.write), lab.MS(f.writeP99), lab.MS(f.notice))
	locks, err := here(ctx, uri)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close(context.WithoutCancel(ctx))) }()
	other, err := startLocker(ctx, uri)
	if err != nil {
		return err
	}
	defer other.end()
	var took []time.Duration
	for range b.Full(200, 40) {
		d, err := handOver(ctx, locks, other, uri)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	for _, at := range []struct{ percent, most float64 }{{50, 2}, {99, 4}} {
		d := history.Percentile(took, at.percent)
		ratio := float64(d) / float64(unit)
		b.Figure(fmt.Sprintf("mutex hand-over p%.0f, %s", at.percent, s.name), ratio <= at.most,
			fmt.Sprintf("≤ %.0f × (write + notification)", at.most), "%.1f × (write + notification), %s, n=%d",
			ratio, lab.MS(d), len(took))
	}
	return nil
}

// handOver is how long it takes from the call of Unlock here until the other process holds the mutex.
func handOver(ctx context.Context, locks *mutex.Locks, other *locker, uri string) (time.Duration, error) {
	held, err := locks.Mutex(mutexName).Lock(ctx)
	if err != nil {
		return 0, err
	}
	if err := other.tell("pass"); err != nil {
		return 0, err
	}
	if err := queued(ctx, uri, 1); err != nil {
		return 0, err
	}
	if err := sleep.For(ctx, restLeast+spread()); err != nil {
		return 0, err
	}
	began := history.Now()
	if err := held.Unlock(ctx); err != nil {
		return 0, err
	}
	var got history.Instant
	if err := other.said("got %d", &got); err != nil {
		return 0, err
	}
	return got.Sub(began), other.said("gave")
}

// queued waits until so many tickets are written.
func queued(ctx context.Context, uri string, n int) (err error) {
	db, err := store.Open(ctx, store.Config{URI: uri, Timeout: callTimeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	return lab.Until(ctx, func() error {
		reply, err := db.Read(ctx, store.KindMutex, record.MutexID(mutexName))
		if err != nil || len(reply.Docs) == 0 {
			return fmt.Errorf("the mutex cannot be read: %w", err)
		}
		is, err := record.MutexFrom(reply.Docs[0])
		if err == nil && len(is.Queue) < n {
			err = fmt.Errorf("%d tickets, want %d", len(is.Queue), n)
		}
		return err
	})
}

// measureRaces counts the turns of ten processes that want one mutex all the time.
func measureRaces(ctx context.Context, b *lab.Lab, s *server, uri string) error {
	window := time.Duration(b.Full(10, 4)) * time.Second
	var all []*locker
	for range racers {
		l, err := startLocker(ctx, uri)
		if err != nil {
			return err
		}
		defer l.end()
		all = append(all, l)
	}
	rates := map[string]float64{}
	for _, how := range []string{"fair", "unfair"} {
		turns := 0
		for _, l := range all {
			if err := l.tell("race %s %d %d", how, raceCallers, window.Milliseconds()); err != nil {
				return err
			}
		}
		for _, l := range all {
			n := 0
			if err := l.said("raced %d", &n); err != nil {
				return err
			}
			turns += n
		}
		rates[how] = float64(turns) / window.Seconds()
	}
	b.Note("mutex, turns a second, "+s.name, "%.0f fair, %.0f unfair: %.1f ×; %d processes of %d callers",
		rates["fair"], rates["unfair"], rates["unfair"]/rates["fair"], racers, raceCallers)
	return nil
}

// measureHeld counts what is written in ten heartbeats while one lock is held, and a thousand.
func measureHeld(ctx context.Context, b *lab.Lab, s *server, uri string) (err error) {
	db, err := store.Open(ctx, store.Config{URI: uri, Timeout: callTimeout})
	if err != nil {
		return err
	}
	counting := &counting{Store: db}
	lease := time.Duration(b.Full(20, 5)) * time.Second
	locks, err := mutex.OnStore(counting, func(c *elect.Config) { c.LeaseDuration = lease })
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, locks.Close(context.WithoutCancel(ctx)), db.Close(context.WithoutCancel(ctx)))
	}()
	var rates []float64
	for held := 0; held < manyHeld; {
		for most := max(1, held*manyHeld); held < most; held++ {
			if _, err := locks.Mutex(fmt.Sprint("held/", held)).Lock(ctx); err != nil {
				return err
			}
		}
		if err := sleep.For(ctx, 2*time.Second); err != nil { // what follows a claim is written
			return err
		}
		before := counting.changes.Load()
		if err := sleep.For(ctx, lease); err != nil {
			return err
		}
		rates = append(rates, float64(counting.changes.Load()-before)/lease.Seconds())
	}
	b.Figure(fmt.Sprintf("writes of %d held locks, %s", manyHeld, s.name), rates[1] <= 1.2*rates[0],
		"those of one", "%.1f × those of one: %.2f a second", rates[1]/rates[0], rates[1])
	return nil
}
