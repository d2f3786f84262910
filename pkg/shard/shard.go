// Package shard spreads named keys over the processes of a service. Each key is worked on by one process at a time.
//
//	err := shard.Run(ctx, shard.Config{
//		Store: "postgres://…", // its driver is imported
//		Group: "topics", Keys: topics, Cap: 20,
//	}, func(ctx context.Context, own shard.Lease) error {
//		return consume(ctx, own.Name(), own.Token())
//	})
//
// Every process that runs this on one store takes its share of the keys, at most Cap of them. When a process dies, the
// others take its keys once its lease is over. When it shuts down gracefully, they take them at once.
//
// # What is promised
//
// At most one process works on a key, as package elect promises it. The context of the work is cancelled when the key
// must go, and the key is released once the work has returned. The fencing token of each start is larger than all
// before it. Have whatever the work writes to reject a token smaller than the largest it has seen.
//
// # The process may exit
//
// Work that ignores its context and outlives its lease would run beside its successor on another process. Before that
// can happen this package exits the process, with status 75. [Config.Overrun] is the only way to replace that.
//
// # Lists
//
// All processes declare the same list of keys. While lists differ, as during a rolling update, keys that are in one
// alone are taken by the processes that know them. Nothing is removed, and nothing moves for balance, until the lists
// agree or one has a higher [Config.Revision]. Meanwhile the problem ConfigDiffers is reported, on the page and in the
// log.
package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Work processes one key for as long as this process owns it. It must return promptly once ctx is done, after every
// goroutine it started has stopped: only then may another process begin, and see [Config.Overrun] for work that does
// not. If it returns or panics while the key is still owned, it is restarted with backoff. An error that wraps
// [ErrDone] stops it for good, on every process.
type Work func(ctx context.Context, own Lease) error

// ErrDone reports that the work of a key is done for good. That is recorded in the store.
var ErrDone = errors.New("the work is done for good")

// Overrun is called with the keys, each GROUP/NAME, whose work still runs although it is about to outlive its lease. The
// process must not go on: other processes start the same work. Once an Overrun lets it go on, it is no longer promised
// that a key is worked on by one process at a time.
type Overrun func(keys []string)

// Config configures [Run] and [Start]. A store and one group with keys are required. A group is either declared by the
// fields Group, Keys, KeysFrom, Slots and Cap, or it is one of Groups. To use both is an error.
type Config struct {
	// Store is the URI of a store, as postgres://…. Import the matching driver, such as
	// _ "github.com/shardctl/shardctl/pkg/store/postgres".
	Store string

	// Group is the name of the only group. Keys, KeysFrom, Slots and Cap are its fields of the same names: see [Group].
	Group    string
	Keys     []string
	KeysFrom func(context.Context) ([]string, error)
	Slots    int
	Cap      int
	// Groups are several groups, or one with further fields, in place of the fields above.
	Groups []Group

	// Instance is the name of this process, a DNS name that no other has. The default is the host name.
	Instance string
	// Zone is where this process runs. Keys are spread over zones. Empty means unknown.
	Zone string
	// Address is the HOST:PORT where requests for the keys of this process go: see [Replica.Owner].
	Address string
	// Lease is how long a process may be silent before others take its keys, from 1s to 24h. The default is 20s.
	Lease time.Duration
	// Overrun is called when work has not returned although 0.9 of Lease have passed without a renewal, or a quarter of
	// Lease since another process took its key. If it is nil, THE PROCESS EXITS with status 75, whatever else it does at
	// that moment.
	Overrun Overrun
	// Settle is the quiet period after a membership change before keys are rebalanced. The default is 10s; a negative
	// value disables it.
	Settle time.Duration
	// Revision is that of the lists of keys. Where those of two processes differ, the higher revision is in force.
	Revision int64
	// Logger gets what happens to this process's keys, and what is wrong. The default is [slog.Default]; to discard
	// everything, use a logger with [slog.DiscardHandler].
	Logger  *slog.Logger
	Options Options
}

// Options holds settings that most programs leave at their zero value.
type Options struct {
	// OpenStore is an open store to use in place of Config.Store. The caller closes it afterwards.
	OpenStore store.Store
	// RenewStore returns the current value of Config.Store, where its password may change while the process runs. It is
	// called for each connection: see [store.Config].
	RenewStore func() (string, error)
	// Cluster names the processes that share keys, so that several clusters may use one database. The default is
	// "default".
	Cluster string
	Labels  map[string]string // of this process, for [Group.Selector]
	// Rollout names the version of the program. While two run side by side, keys that move go to the newer one. The
	// default is a hash of the executable.
	Rollout string
	// MaxKeys is the most keys that this process owns over all groups; 0 means no limit.
	MaxKeys int
	// MaxMoves is the most hand-overs for balance that are under way at a time in a group; 0 means no limit.
	MaxMoves int
	// Metrics counts what this process does. Package shardhttp has some for Prometheus. The default is none.
	Metrics Metrics

	clock elect.Clock // of tests; nil: the machine's
}

// Metrics counts what a Replica does. Its methods may be called concurrently and must not block.
type Metrics = replica.Metrics

// Group is a list of keys that are spread together. Exactly one of Keys, KeysFrom and Slots is set.
type Group struct {
	// Name is a lower-case DNS name.
	Name string
	// Keys are the names, each of at most 249 letters, digits, '_', '.' and '-'.
	Keys []string
	// KeysFrom returns the names. It is called again and again, by each process for itself. If it fails, the previous
	// list stays in force.
	KeysFrom func(context.Context) ([]string, error)
	// KeysEvery is the interval between two calls of KeysFrom, at least 1s. The default is 30s.
	KeysEvery time.Duration
	// Slots makes the keys slot-000, slot-001 and so on, for more things than anybody lists. [Replica.Slot] returns the
	// slot of a thing. The number cannot be changed later: with another one nearly all things have another slot.
	Slots int
	// Cap is the most keys of the group that this process owns; 0 means no cap.
	Cap int
	// Weight returns the share of the load that a key has, at least 1. It must be the same in all processes. If it is
	// nil, all are equal.
	Weight func(name string) int
	// Selector has the labels that a process needs to own any key of the group. If it is empty, all processes may.
	Selector map[string]string
	// Task holds what else applies to each key, such as a schedule or the backoff between restarts. Its names and its
	// runner are filled in.
	Task tasks.Task
	// Work is done for each key. The default is the function given to [Run].
	Work Work
}

// Run shares the keys until ctx is done, releases all of them, and returns nil. It returns an error if the
// configuration is invalid, the store cannot be used, or it was unreachable for longer than the lease. A store that
// cannot be reached at the beginning is waited for. work may be nil if each group has its own.
//
// Run may exit the process: see [Config.Overrun].
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

// Name returns the name of the key in its group.
func (l Lease) Name() string { return l.run.Name }

// Key returns GROUP/NAME.
func (l Lease) Key() string { return string(l.run.Key()) }

// Token returns the fencing token of this start. It rises with every start of the key, on any process, and by Advance.
func (l Lease) Token() int64 { return l.token.Load() }

// Advance gives the lease a new, larger token and returns it. It is for work that has lost track of what it has sent:
// whatever has seen the new token rejects what was sent under the old one. Value and SetValue use the new token from
// then on. One Advance of a key is under way at a time. On error the lease keeps its token. The errors are
// [elect.ErrLeaseLost], [elect.ErrReleased] and the context's cause.
func (l Lease) Advance(ctx context.Context) (int64, error) {
	token, err := l.run.Advance(ctx)
	for was := l.token.Load(); was < token && !l.token.CompareAndSwap(was, token); {
		was = l.token.Load()
	}
	return token, err
}

// Tick returns the scheduled time of this run, or the zero Time if the key has no schedule.
func (l Lease) Tick() time.Time { return l.run.ScheduledAt }

// Valid reports whether the lease holds, by the local clock. The answer may be outdated when it is used: it does not
// replace the token.
func (l Lease) Valid() bool { return l.run.Lease.Valid() }

// Deadline returns the time by which Work must have returned. Renewals extend it. It returns the zero Time once the
// lease is lost.
func (l Lease) Deadline() time.Time { return l.run.Lease.Deadline() }

// Value returns the stored checkpoint, or nil if there is none. See [elect.Checkpoint] for its errors.
func (l Lease) Value(ctx context.Context) ([]byte, error) { return l.run.Lease.Value(ctx) }

// SetValue stores a checkpoint of at most [elect.MaxValue] bytes with the key, for the next owner. No previous owner
// can change it any more.
func (l Lease) SetValue(ctx context.Context, value []byte) error {
	return l.run.Lease.SetValue(ctx, value)
}

var _ elect.Checkpoint = Lease{}
