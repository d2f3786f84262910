// Package shard spreads named keys over the processes of a service. Each key is worked on by one process at a time.
//
//	err := shard.Run(ctx, shard.Config{
//		Store: "postgres://…", // its driver is imported
//		Group: "topics", Keys: topics, Cap: 20,
//	}, func(ctx context.Context, own shard.Lease) error {
//		return consume(ctx, own.Name(), own.Token())
//	})
//
// Every process that runs this on one store takes its share of the keys, at most Cap of them. When a process dies the
// others take its keys, once its lease is over. When it ends in order, they take them at once.
//
// # What is promised
//
// At most one process works on a key, as package elect promises it. The context of the work ends when the key must go,
// and the key goes on once the work has returned. Work that goes on although its lease is over ends the process, with
// status 75: see [Options]. The fencing token of each start is larger than all before it. Let what the work
// writes to refuse a smaller one than it has seen.
//
// # Lists
//
// All processes have the same list of keys. While lists differ, as during a rolling update, keys that are in one alone
// are taken by those who know them. Nothing is removed, and nothing moves for balance, until the lists agree or one has
// a higher [Config.Revision]. The problem ConfigDiffers says so meanwhile, on the page and in the log.
package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Work is done for one key, for as long as this process owns it. It returns soon after ctx ends, when nothing of it is
// left: only then may another process begin. When it returns before, or panics, it is started again with backoff. With
// an error that wraps [ErrDone] it is never started again, on any process.
type Work func(ctx context.Context, own Lease) error

// ErrDone says that the work of a key is done for good. It is noted in the store.
var ErrDone = errors.New("the work is done for good")

// Config is what a process takes part with. Only a store and a group with keys are required.
type Config struct {
	// Store is the URI of a store, as postgres://…. The package of its driver has to be imported.
	Store string

	// Group, Keys, KeysFrom, Slots and Cap are a group without the other fields of [Group]. Groups are instead of it, or
	// beside it.
	Group    string
	Keys     []string
	KeysFrom func(context.Context) ([]string, error)
	Slots    int
	Cap      int
	Groups   []Group

	// Instance is the name of this process, a DNS name of its own; default: the host name.
	Instance string
	Zone     string // keys are spread over zones; empty: unknown
	// Address is the HOST:PORT where requests for the keys of this process go: see [Replica.Owner].
	Address string
	// Lease is how long a process may be silent before others take its keys: default 20 s, from 1 s to 24 h.
	Lease time.Duration
	// Settle is how long no process must have come or gone before keys move for balance alone; default 10 s. Below 0:
	// none.
	Settle time.Duration
	// Revision of the lists: where processes differ, the higher one holds.
	Revision int64
	Logger   logr.Logger
	Options  Options
}

// Options are what few processes need.
type Options struct {
	// OpenStore is a store that the caller has opened, and closes afterwards, in place of Config.Store.
	OpenStore store.Store
	// RenewStore returns Config.Store as it is now, where its password may be renewed while the process runs. It is
	// called for each connection: see [store.Config].
	RenewStore func() (string, error)
	// Cluster names those who share keys. Several clusters may use one database; default: default.
	Cluster string
	Labels  map[string]string // of this process, see [Group]
	// Rollout names what this process was started from. While two run side by side, keys that move go to the newer one.
	// Default: a hash of the program's file.
	Rollout string
	MaxKeys int // most keys of this process over all groups; 0: no limit
	// MaxMoves is how many hand-overs for balance go on at a time in a group; 0: no limit.
	MaxMoves int
	// Metrics counts what this process does. Package shardhttp has some for Prometheus. The default is none.
	Metrics Metrics
	// OnStuck is called when the work of these keys goes on although the lease is over, see [elect.Config]. The process
	// must not go on. Default: it exits with status 75.
	OnStuck func(keys []string)

	clock elect.Clock // of tests; nil: the machine's
}

// Metrics counts what a Replica does. Its methods may be called concurrently and must not block.
type Metrics = replica.Metrics

// Group is a list of keys that are spread together. It has one of Keys, KeysFrom and Slots.
type Group struct {
	Name string
	// Keys are the names, each at most 249 letters, digits, '_', '.' and '-'.
	Keys []string
	// KeysFrom lists the names again and again. Each process asks by itself; a list that cannot be had changes nothing.
	KeysFrom  func(context.Context) ([]string, error)
	KeysEvery time.Duration // how often it is asked, at least 1 s; default 30 s
	// Slots makes the keys slot-000, slot-001 and so on, for more things than anybody lists: [Replica.Slot] says which one
	// a thing has. It stays the same for good: with another number nearly all things have another slot.
	Slots int
	// Cap is the most keys of the group that this process owns; 0: no cap.
	Cap int
	// Weight is the share of the load that a key has, from 1 on. It is the same in all processes; nil: all are equal.
	Weight func(name string) int
	// Selector is which labels a process must have to own any; empty: all may.
	Selector map[string]string
	// Task has what else holds for each key, as the backoff between starts, or a schedule. Names and the runner are
	// filled in.
	Task tasks.Task
	// Work is done for each key; nil: what was given to [Run].
	Work Work
}

// Run takes part until ctx ends, hands every key over, and returns nil. It returns an error where the configuration is
// wrong, the store cannot be used, or it was lost for longer than the lease. A store that cannot be reached at the
// beginning is waited for. work may be nil where each group has its own.
func Run(ctx context.Context, cfg Config, work Work) error {
	r, err := Start(ctx, cfg, work)
	if err != nil {
		return err
	}
	return r.Wait()
}

// Lease is the hold on a key during one start of its work. Its methods may be called concurrently.
type Lease struct {
	run   tasks.Run
	token *atomic.Int64
}

func newLease(run tasks.Run) Lease {
	l := Lease{run: run, token: &atomic.Int64{}}
	l.token.Store(run.Token)
	return l
}

// Name is the name of the key in its group.
func (l Lease) Name() string { return l.run.Name }

// Key is GROUP/NAME.
func (l Lease) Key() string { return string(l.run.Key()) }

// Token is the fencing token of this start. It rises with every start of the key, on any process, and by Advance.
func (l Lease) Token() int64 { return l.token.Load() }

// Advance gives the work that goes on a new, larger token, and returns it. It is for work that has lost track of what
// it has sent: whatever has seen the new token refuses what was sent under the old one. What Value and SetValue do from
// then on is under the new token. One Advance of a key goes on at a time. With an error the lease keeps its token.
// Errors: [elect.ErrLeaseLost], [elect.ErrReleased], or the context's cause.
func (l Lease) Advance(ctx context.Context) (int64, error) {
	token, err := l.run.Advance(ctx)
	for was := l.token.Load(); was < token && !l.token.CompareAndSwap(was, token); {
		was = l.token.Load()
	}
	return token, err
}

// Tick is the tick that this start is for; zero of keys without a schedule.
func (l Lease) Tick() time.Time { return l.run.ScheduledAt }

// Valid says whether the work may go on now, by the local clock. It was true a moment ago: use the token as well.
func (l Lease) Valid() bool { return l.run.Lease.Valid() }

// Deadline is when the work must have ended. It moves on while the lease is renewed. The zero time: the lease is lost.
func (l Lease) Deadline() time.Time { return l.run.Lease.Deadline() }

// Value is what was kept with the key last; nil: nothing. See [elect.Checkpoint], also for the errors.
func (l Lease) Value(ctx context.Context) ([]byte, error) { return l.run.Lease.Value(ctx) }

// SetValue keeps a value of at most [elect.MaxValue] bytes with the key. It outlives this process. An owner before this
// one can change it no more.
func (l Lease) SetValue(ctx context.Context, value []byte) error {
	return l.run.Lease.SetValue(ctx, value)
}

var _ elect.Checkpoint = Lease{}
