// Package storecheck finds out what a store promises here: what it is, how it is set up, how fast it answers, and what
// of what replicas rely on is missing.
//
// It writes documents of its own, of kinds that no replica acts on, and removes them.
package storecheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Samples is how many calls of each sort are measured.
const Samples = 50

// ReasonSetting is the reason of a problem that a check itself finds: a setting that a promise hangs on is wrong.
// Replicas do not report it.
const ReasonSetting = "StoreSetting"

// broken are the problems with which a promise is not kept. The others cost time or load, or may become worse.
var broken = []string{
	api.ProblemStoreNotDurable, api.ProblemStoreNotReplicated, api.ProblemStoreReplicaLags,
	api.ProblemStoreSeveralNodes, api.ProblemStorePrivileged, api.ProblemStoreClosed,
}

// Result is what was found.
type Result struct {
	Store    string          `json:"store"` // the URI without secrets
	Driver   string          `json:"driver"`
	Cluster  string          `json:"cluster"`
	Server   string          `json:"server"`
	Settings []store.Setting `json:"settings"`
	// ClockAheadSeconds is by how much the store's clock is ahead of this machine's. Half of a call's duration is the
	// precision.
	ClockAheadSeconds float64 `json:"clockAheadSeconds"`
	Read              Latency `json:"read"`
	Write             Latency `json:"write"`        // until it is durable
	Notification      Latency `json:"notification"` // from the begin of the write to its arrival
	Polled            bool    `json:"polled"`       // the store has no notifications: replicas ask at intervals
	// LeaseFromSeconds is the shortest lease that works well so far from the store: twenty times as long as half of the
	// durable writes take, or of the reads where no write was measured. A replica with a shorter one has the problem
	// StoreSlow.
	LeaseFromSeconds float64 `json:"leaseFromSeconds"`
	// Connections is how many connections this process had open to the store; null where that cannot be counted.
	Connections *int      `json:"connections"`
	Problems    []Problem `json:"problems"`
	Holds       bool      `json:"holds"` // nothing is missing for the promises
}

// Problem is a [store.Problem], weighed.
type Problem struct {
	store.Problem

	Promise bool `json:"promise"` // a promise of the cluster is not kept with it
}

// Latency is how long calls took. Samples 0: none were measured.
type Latency struct {
	Samples    int     `json:"samples"`
	P50Seconds float64 `json:"p50Seconds"`
	MaxSeconds float64 `json:"maxSeconds"`
}

// Options say what to check, and how.
type Options struct {
	Config   store.Config
	ReadOnly bool // no document is made or written, and writes are not measured
}

// Check opens a store as a replica would and looks at it. Errors are those of [store.Open] and of the calls.
func Check(ctx context.Context, o Options) (Result, error) {
	d, err := driver.Lookup(o.Config.URI)
	if err != nil {
		return Result{}, err
	}
	c, err := d.Parse(o.Config)
	if err != nil {
		return Result{}, err
	}
	c.Existing = o.ReadOnly
	before, counted := sockets()
	db, err := d.Open(ctx, c)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	r := Result{Store: d.Redact(c.URI), Driver: d.Name(), Cluster: c.Cluster}
	if err := r.measure(ctx, db, o.ReadOnly); err != nil {
		return Result{}, err
	}
	if after, ok := sockets(); ok && counted {
		n := max(after-before, 0)
		r.Connections = &n
	}
	found, err := store.Inspect(ctx, db)
	if err != nil {
		return Result{}, fmt.Errorf("inspect the store: %w", err)
	}
	r.conclude(found, store.Problems(db))
	r.judgeLease(callsOfLease * o.Config.Timeout)
	return r, nil
}

const (
	// callsOfLease is how many calls, one after the other, take a lease: [store.Config.Timeout] is a part of it.
	callsOfLease = 6
	// slowPart is the part of a lease from which on a heartbeat is slow.
	slowPart = 20
	// leastLease is the shortest one that a configuration may have.
	leastLease = time.Second
)

// judgeLease says from which lease on this store is near enough, and what of the one that is configured; 0: none is.
func (r *Result) judgeLease(lease time.Duration) {
	took := cmp.Or(r.Write.P50Seconds, r.Read.P50Seconds)
	// Rounded up to a tenth of a second.
	from := max(leastLease, time.Duration(slowPart*took*float64(time.Second))+100*time.Millisecond-1).
		Truncate(100 * time.Millisecond)
	r.LeaseFromSeconds = from.Seconds()
	if lease > 0 && lease < from {
		r.add(api.ProblemStoreSlow, fmt.Sprintf("lease.duration is %v; so far from the store it should be %v or longer",
			lease, from), false)
	}
}

func (r *Result) measure(ctx context.Context, db store.Store, readOnly bool) error {
	if err := r.reads(ctx, db); err != nil {
		return err
	}
	if readOnly {
		return nil
	}
	p := newProbe(db)
	err := r.writes(ctx, p)
	if err == nil {
		err = r.notifications(ctx, p)
	}
	limit := notificationLimit
	if err != nil {
		limit = time.Second // what is left expires
	}
	left := p.cleanUp(context.WithoutCancel(ctx), limit)
	if err != nil && left != nil {
		return fmt.Errorf("%w; and %w", err, left)
	}
	return cmp.Or(err, left)
}

// conclude says what is missing.
func (r *Result) conclude(found store.Inspection, problems []store.Problem) {
	r.Server, r.Settings, r.Problems, r.Holds = found.Server, []store.Setting{}, []Problem{}, true
	for _, p := range problems {
		r.add(p.Reason, p.Message, slices.Contains(broken, p.Reason))
	}
	for _, s := range found.Settings {
		r.Settings = append(r.Settings, s)
		if !s.Holds {
			r.add(ReasonSetting, fmt.Sprintf("%s is %s, the promises need %s", s.Name, s.Value, s.Want), true)
		}
	}
}

func (r *Result) add(reason, message string, promise bool) {
	r.Problems = append(r.Problems, Problem{store.Problem{Reason: reason, Message: message}, promise})
	r.Holds = r.Holds && !promise
}

// reads measures linearizable reads, and takes the difference of the clocks from the fastest of them.
func (r *Result) reads(ctx context.Context, db store.Store) error {
	var took []time.Duration
	fastest := time.Duration(-1)
	id := uuid.NewString()
	for range Samples {
		begin := time.Now()
		reply, err := db.Read(ctx, driver.KindMember, id)
		if err != nil {
			return fmt.Errorf("measure reads: %w", err)
		}
		d := time.Since(begin)
		if took = append(took, d); fastest < 0 || d < fastest {
			fastest = d
			r.ClockAheadSeconds = time.UnixMilli(reply.Wall).Sub(begin.Add(d / 2).Round(0)).Seconds()
		}
	}
	r.Read = latency(took)
	return nil
}

// writes measures how long a write takes until it is durable.
func (r *Result) writes(ctx context.Context, p *probe) error {
	if err := p.write(ctx, driver.KindSession); err != nil { // a member without a session would never be cleaned up
		return fmt.Errorf("measure writes: %w", err)
	}
	var took []time.Duration
	for range Samples {
		begin := time.Now()
		if err := p.write(ctx, driver.KindMember); err != nil {
			return fmt.Errorf("measure writes: %w", err)
		}
		took = append(took, time.Since(begin))
	}
	r.Write = latency(took)
	return p.remove(ctx, driver.KindMember)
}

// notificationLimit is how long one is waited for.
const notificationLimit = 10 * time.Second

// notifications measures from the begin of a write until the watcher hears of it.
func (r *Result) notifications(ctx context.Context, p *probe) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard, err := p.db.Watch(ctx, driver.Interest{Kinds: []driver.Kind{driver.KindSession}})
	if errors.Is(err, driver.ErrCannotWatch) {
		r.Polled = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := hear(ctx, heard, func(n driver.Notification) bool { return n.Resync }); err != nil {
		return err
	}
	var took []time.Duration
	for range Samples {
		// A session that is dead from the beginning: its creation is notified, and no one acts on it.
		if err := p.remove(ctx, driver.KindSession); err != nil {
			return fmt.Errorf("measure notifications: %w", err)
		}
		if err := hear(ctx, heard, p.shows); err != nil {
			return err
		}
		drain(heard)
		begin := time.Now()
		if err := p.write(ctx, driver.KindSession); err != nil {
			return fmt.Errorf("measure notifications: %w", err)
		}
		if err := hear(ctx, heard, p.shows); err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	r.Notification = latency(took)
	return nil
}

// drain takes what has been notified already: of an earlier write, a second time.
func drain(heard <-chan driver.Notification) {
	for {
		select {
		case _, ok := <-heard:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

func hear(ctx context.Context, heard <-chan driver.Notification, wanted func(driver.Notification) bool) error {
	limit := time.NewTimer(notificationLimit)
	defer limit.Stop()
	for {
		select {
		case n, ok := <-heard:
			if !ok {
				return fmt.Errorf("watch: %w: it broke", store.ErrUnavailable)
			}
			if wanted(n) {
				return nil
			}
		case <-limit.C:
			return fmt.Errorf("watch: %w: no notification within %v", store.ErrUnavailable, notificationLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func latency(took []time.Duration) Latency {
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1)+0.5)].Seconds() }
	return Latency{Samples: len(took), P50Seconds: at(0.5), MaxSeconds: at(1)}
}
