package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Config configures a store. The scheme of its URI selects the driver.
type Config struct {
	// URI is SCHEME:…; it may hold a password. Required.
	URI string
	// Renew returns the URI as it is now, where a part of it may change while the store is open, as a password that is
	// kept in a file. It is called for each connection, and not for each call, perhaps concurrently. Only the user, the
	// password and other secrets of the URI may differ: a URI that names another place is not followed. After an error,
	// and as long as what it returns cannot be used, the last URI that could is used. Nil: the URI stays.
	Renew func() (string, error)
	// Database is for stores that keep several on one server. Default: the URI's, else the driver's own.
	Database string
	// Cluster keeps those apart who share a database. Default: "default".
	Cluster string
	// Timeout bounds calls whose context has no deadline. Give it a sixth of the lease's duration. Default: the
	// driver's own.
	Timeout time.Duration
	// Existing opens what was set up before, for a few calls: nothing is made, the right to read is enough to open it,
	// and no more connections are kept than are used.
	Existing bool
	// Logger gets what no caller gets: broken watches, unreadable documents. The zero value logs nothing.
	Logger logr.Logger
}

// Driver opens the stores of one kind of database. Its methods may be called concurrently.
type Driver interface {
	// Name is one lower-case word for people and programs: mongodb, sqlite.
	Name() string
	// Form shows how URIs of a scheme look: sqlite:PATH.
	Form(scheme string) string
	// Parse fills in what was left out, and refuses what Open would refuse, without asking the network or the disk.
	// Errors are [FieldError] and never hold a secret.
	Parse(c Config) (Config, error)
	// Redact is a URI without its secrets. It takes wrong ones as well, and then rather hides too much.
	Redact(uri string) string
	// Open connects and, unless Config.Existing, sets up what is missing, all within ctx. Errors wrap [ErrInvalid] when
	// it is no use to try again, [ErrSchema], or [ErrUnavailable]. They never hold a secret.
	Open(ctx context.Context, c Config) (Store, error)
}

// LocalDriver is a [Driver] whose stores are files: all clients must run on one machine.
type LocalDriver interface {
	// LocalURI is the URI of a store in a file.
	LocalURI(path string) string
}

// WriterBlocker is a [Driver] of whose stores a client may keep all others from writing, as one may that was stopped
// within a transaction.
type WriterBlocker interface {
	BlocksWriters(c Config, pid int) (bool, error)
}

// BlocksWriters says whether a process of this machine keeps all others from writing. False where none can.
func BlocksWriters(c Config, pid int) (bool, error) {
	d, err := Lookup(c.URI)
	if err != nil {
		return false, err
	}
	if b, ok := d.(WriterBlocker); ok {
		return b.BlocksWriters(c, pid)
	}
	return false, nil
}

// Problem is something about a database that an operator should know; the store works all the same.
type Problem struct {
	Reason  string `json:"reason"` // one word, such as StoreStandalone
	Message string `json:"message"`
}

// ProblemReporter is a [Store] that looks for problems. The result is the caller's.
type ProblemReporter interface{ Problems() []Problem }

// Unwrapper is a [Store] around another one. What it cannot do, the other one may.
type Unwrapper interface{ Unwrap() Store }

// As returns what implements T, a method that not every store has: the store itself, or else the outermost of the stores
// that it wraps. ok is false where none does.
func As[T any](s Store) (able T, ok bool) {
	for {
		if able, ok = s.(T); ok {
			return able, true
		}
		w, wraps := s.(Unwrapper)
		if !wraps {
			return able, false
		}
		s = w.Unwrap()
	}
}

// SecretVariables lists the variables of the environment from which the database's driver takes secrets, or paths to
// them, beyond the URI. They belong to the store, and commands must not inherit them.
//
// A driver takes part as a [SecretReader].
func SecretVariables(c Config) []string {
	d, err := Lookup(c.URI)
	if err != nil {
		return nil
	}
	if r, ok := d.(SecretReader); ok {
		return r.SecretVariables(c)
	}
	return nil
}

// SecretReader is a [Driver] that reads secrets from the environment.
type SecretReader interface{ SecretVariables(c Config) []string }

// Forgets says why a database may forget what it acknowledged, as far as its URI shows that: a server that has less may
// take its place. Empty: the URI shows no reason. What the settings of the database show is reported by its [ProblemReporter].
//
// A driver takes part as a [Forgetter].
func Forgets(c Config) string {
	d, err := Lookup(c.URI)
	if err != nil {
		return ""
	}
	if f, ok := d.(Forgetter); ok {
		return f.Forgets(c)
	}
	return ""
}

// Forgetter is a [Driver] of which some URIs name databases that forget.
type Forgetter interface{ Forgets(c Config) string }

// Initializer is a [Driver] of whose stores an operator says once that they are new. Init of package store has its
// contract.
type Initializer interface {
	Init(ctx context.Context, c Config) (made bool, err error)
}

// FieldError says what is wrong with a field of a [Config]. It wraps [ErrInvalid].
type FieldError struct {
	Field string // uri, database or cluster
	Text  string // goes on after the field's name, such as: names no host, must be mongodb://HOST
}

// Error implements error.
func (e *FieldError) Error() string { return "store." + e.Field + ": " + e.Text }

// Unwrap makes it an [ErrInvalid].
func (e *FieldError) Unwrap() error { return ErrInvalid }

type registration struct {
	scheme string
	driver Driver
}

var registry struct {
	sync.RWMutex
	all []registration
}

// Register makes a driver known for URIs that begin with scheme and a colon. Packages of stores call it when they are
// imported. It panics when the scheme is empty or taken, since two packages then claim one.
func Register(scheme string, d Driver) {
	registry.Lock()
	defer registry.Unlock()
	if scheme == "" || strings.Contains(scheme, ":") || find(scheme) != nil {
		panic(fmt.Sprintf("store: cannot register scheme %q: empty, with a colon, or registered twice", scheme))
	}
	registry.all = append(registry.all, registration{scheme, d})
	slices.SortFunc(registry.all, func(a, b registration) int { return strings.Compare(a.scheme, b.scheme) })
}

// find wants the registry locked.
func find(scheme string) Driver {
	for _, r := range registry.all {
		if r.scheme == scheme {
			return r.driver
		}
	}
	return nil
}

// Lookup is the driver of a URI. The error is a [FieldError] that lists what is registered, and does not quote the URI.
func Lookup(uri string) (Driver, error) {
	scheme, _, _ := strings.Cut(uri, ":")
	registry.RLock()
	defer registry.RUnlock()
	if d := find(scheme); d != nil {
		return d, nil
	}
	if uri == "" {
		return nil, &FieldError{"uri", "is required: " + forms()}
	}
	return nil, &FieldError{"uri", "does not begin with a known scheme, must be " + forms()}
}

// Schemes lists the registered schemes in order, each with its driver's name.
func Schemes() []Scheme {
	registry.RLock()
	defer registry.RUnlock()
	all := make([]Scheme, len(registry.all))
	for i, r := range registry.all {
		all[i] = Scheme{r.scheme, r.driver.Name()}
	}
	return all
}

// Scheme is a registered scheme of URIs.
type Scheme struct {
	Scheme string // without its colon
	Driver string // what [Driver.Name] says
}

// Forms lists how URIs of the registered schemes look, for people.
func Forms() string {
	registry.RLock()
	defer registry.RUnlock()
	return forms()
}

// forms wants the registry locked.
func forms() string {
	all := make([]string, len(registry.all))
	for i, r := range registry.all {
		all[i] = r.driver.Form(r.scheme)
	}
	if len(all) == 0 {
		return "a URI of a store, of which none is built in"
	}
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// Parse completes a Config by the driver of its URI.
func Parse(c Config) (Config, error) {
	d, err := Lookup(c.URI)
	if err != nil {
		return c, err
	}
	return d.Parse(c)
}

// ErrNoLocal says that no registered store keeps its documents in a file of this machine.
var ErrNoLocal = errors.New("no store for one machine is built in")

// LocalURI is the URI of a store in a file of this machine, by the first registered driver that has such.
func LocalURI(path string) (string, error) {
	registry.RLock()
	defer registry.RUnlock()
	for _, r := range registry.all {
		if l, local := r.driver.(LocalDriver); local {
			return l.LocalURI(path), nil
		}
	}
	return "", ErrNoLocal
}

// Inspection is what a database says of itself.
type Inspection struct {
	Server   string    // product and version, such as PostgreSQL 15.18; empty: not known
	Settings []Setting // those that a promise hangs on, and those that people ask for
}

// Setting is one setting of a database, of its connections or of how it is run.
type Setting struct {
	Name  string `json:"name"`  // the database's own word, such as synchronous_commit
	Value string `json:"value"` // as found
	Want  string `json:"want"`  // what the promises need; empty: it is shown and nothing hangs on it
	Holds bool   `json:"holds"` // whether Value is what Want says; true where Want is empty
	// Forgets says that the store may forget what it acknowledged where the setting does not hold.
	Forgets bool `json:"-"`
}

// Inspector is a [Store] that can say what its database is.
type Inspector interface {
	Inspect(ctx context.Context) (Inspection, error)
}

// RaiseFloor makes every later [Reply.Floor] of the cluster at least floor, from 0 to [MaxMark]; else the error wraps
// [ErrMalformed]. It is for those who move documents from one store to another. It is not for a cluster that runs. It
// does nothing in a store whose floor follows a clock and the counters of groups: the counters that are moved do the
// same.
func RaiseFloor(ctx context.Context, s Store, floor int64) error {
	if floor < 0 || floor > MaxMark {
		return fmt.Errorf("raise the floor: %w: %d, want 0 to %d", ErrMalformed, floor, int64(MaxMark))
	}
	if r, ok := As[FloorRaiser](s); ok {
		return r.RaiseFloor(ctx, floor)
	}
	return nil
}

// FloorRaiser is a [Store] whose floor is a counter of its own.
type FloorRaiser interface {
	RaiseFloor(ctx context.Context, floor int64) error
}
