package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// odds are how likely each fault of a call is.
type odds struct {
	loseRequest float64 // the call never reaches the store
	loseAnswer  float64 // the call is performed, and its answer is lost
	late        float64 // the caller gives it up at once; a write arrives some time later
	delay       float64 // the request, or the answer, is under way for a while
	longest     time.Duration
}

// injected counts the faults of a test, by name.
type injected struct {
	mu sync.Mutex
	n  map[string]int
}

func (f *injected) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[string]int{}
	}
	f.n[name]++
}

// count is how many there were of these kinds; without kinds: of all.
func (f *injected) count(kinds ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := 0
	for kind, n := range f.n {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			sum += n
		}
	}
	return sum
}

func (f *injected) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.n)
}

// unreliable is a store whose way to the database loses, delays and repeats, by seed, and can be cut.
type unreliable struct {
	inner  store.Store
	odds   odds
	faults *injected

	mu      sync.Mutex
	random  *rand.Rand
	cutOff  context.Context // ends while the way is cut
	cut     context.CancelFunc
	late    sync.WaitGroup
	quiet   atomic.Bool            // no faults but the cut
	lineage atomic.Pointer[string] // of writes, that the last reply named; nil: none has
}

var (
	errLost = errors.New("lost on the way")
	errCut  = errors.New("cut off")
)

func newUnreliable(inner store.Store, random *rand.Rand, o odds, faults *injected) *unreliable {
	u := &unreliable{inner: inner, odds: o, faults: faults, random: random}
	u.heal()
	return u
}

func (u *unreliable) heal() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cutOff, u.cut = context.WithCancel(context.Background())
}

// sever cuts the way: nothing more gets through. What is on its way may arrive, and its answer is lost.
func (u *unreliable) sever() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut()
}

func (u *unreliable) way() context.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cutOff
}

// throw decides on the faults of one call.
func (u *unreliable) throw() (fault string, before, after time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.quiet.Load() {
		return "", 0, 0
	}
	at := u.random.Float64()
	for _, f := range []struct {
		name string
		odds float64
	}{{"request lost", u.odds.loseRequest}, {"answer lost", u.odds.loseAnswer}, {"late", u.odds.late}} {
		if at -= f.odds; at < 0 {
			fault = f.name
			u.faults.add(f.name)
			break
		}
	}
	if u.odds.longest > 0 && (fault == "late" || u.random.Float64() < u.odds.delay) {
		before, after = upTo(u.random, u.odds.longest), upTo(u.random, u.odds.longest)
		u.faults.add("delayed")
	}
	return fault, before, after
}

// pause is a part of the way that takes d. On one that is cut there is no answer, and the caller waits until its
// context ends.
func pause(ctx context.Context, cut <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-cut:
	}
	select {
	case <-cut:
		<-ctx.Done()
		return errCut
	default:
		return nil
	}
}

// carry takes a call to the database and back, as far as it gets. act must not write to what the caller sees but by its
// result.
func carry[T any](ctx context.Context, u *unreliable, write bool, act func(context.Context) (T, error)) (T, error) {
	var none T
	fault, before, after := u.throw()
	way := u.way()
	if fault == "late" {
		if write {
			u.late.Go(func() {
				time.Sleep(before)
				late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				if way.Err() == nil {
					_, _ = act(late) // its answer is lost
				}
			})
		}
		return none, errLost
	}
	if err := pause(ctx, way.Done(), before); err != nil {
		return none, err
	}
	if fault == "request lost" {
		return none, errLost
	}
	value, err := act(ctx)
	if err := pause(ctx, way.Done(), after); err != nil {
		return none, err
	}
	if fault == "answer lost" {
		return none, errLost
	}
	return value, err
}

func (u *unreliable) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	res, err := carry(
		ctx, u, false, func(ctx context.Context) (driver.Reply, error) { return u.inner.Read(ctx, kind, ids...) },
	)
	u.follows(res.Lineage)
	return res, unavailable(err)
}

func (u *unreliable) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	res, err := carry(
		ctx, u, false, func(ctx context.Context) (driver.Reply, error) { return u.inner.List(ctx, kind, q) },
	)
	u.follows(res.Lineage)
	return res, unavailable(err)
}

func (u *unreliable) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs, err := carry(ctx, u, true, func(ctx context.Context) ([]driver.Outcome, error) {
		outs, err := u.inner.Apply(ctx, changes...)
		if err != nil && outs == nil {
			return nil, fmt.Errorf("%w: %w", errRefusedCall, err)
		}
		return outs, err
	})
	if errors.Is(err, errRefusedCall) {
		return nil, err
	}
	if err != nil {
		return driver.AllUnknown(len(changes), err), nil
	}
	for _, out := range outs {
		u.follows(out.Lineage)
	}
	return outs, nil
}

// follows notes the lineage that a reply named.
func (u *unreliable) follows(lineage string) {
	if lineage != "" {
		u.lineage.Store(&lineage)
	}
}

// known is the lineage that the last reply named; empty in stores that lose none.
func (u *unreliable) known() string {
	if lineage := u.lineage.Load(); lineage != nil {
		return *lineage
	}
	return ""
}

// errRefusedCall says the store took none of the changes.
var errRefusedCall = errors.New("the store takes none of this")

func (u *unreliable) Watch(ctx context.Context, in driver.Interest) (<-chan driver.Notification, error) {
	way := u.way()
	if way.Err() != nil {
		<-ctx.Done()
		return nil, unavailable(errCut)
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(way, cancel) //nolint:contextcheck // a watch breaks with the way
	notifications, err := u.inner.Watch(ctx, in)
	if err != nil {
		cancel()
	}
	return notifications, err
}

// Close closes the store itself, which nothing else uses.
func (u *unreliable) Close(ctx context.Context) error {
	u.late.Wait()
	return u.inner.Close(ctx)
}

func unavailable(err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// upTo is a time below d, by chance.
func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
