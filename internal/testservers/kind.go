//go:build unix

package testservers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// Kind is a kind of server.
type Kind string

// EnvRequired is a variable that, set to "required", has tests fail that lack their server, instead of being skipped.
// Set to "none", no server is found, and all of them are skipped.
const EnvRequired = "SHARDCTL_TEST_SERVERS"

// ErrMissing says that a server cannot be provided. Its text goes on with what to install.
var ErrMissing = testprocess.ErrMissing

// definition is what there is to know about a kind.
type definition struct {
	// software makes what runs one server on its own.
	software func() testprocess.Software
	// database makes an empty database in a server that serves clients, and returns its URI.
	database func(ctx context.Context, s *testprocess.Server) (uri string, err error)
}

var definitions = map[Kind]definition{}

// register is called by the file of each kind, before any test.
func register(k Kind, d definition) { definitions[k] = d }

// Kinds are all of them, in order of their names.
func Kinds() []Kind { return slices.Sorted(maps.Keys(definitions)) }

func (k Kind) definition() (definition, error) {
	d, found := definitions[k]
	if !found {
		return d, fmt.Errorf("no kind of server is called %q; there are %v", k, Kinds())
	}
	return d, nil
}

// Provide fetches what a kind needs, so that the first test need not wait for it. Its error wraps [ErrMissing] when
// something is to be installed.
func Provide(ctx context.Context, k Kind) error {
	d, err := k.definition()
	if err != nil {
		return err
	}
	return family.Provide(ctx, string(k), d.software())
}

// ProvideAll fetches what all kinds need, and poolers besides. It reports the name of each that is at hand, and returns
// the errors of all others.
func ProvideAll(ctx context.Context, report func(name string)) error {
	software := map[string]testprocess.Software{kindPgBouncer: &pgbouncer{}}
	for k, d := range definitions {
		software[string(k)] = d.software()
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(software)) {
		err := family.Provide(ctx, name, software[name])
		if err == nil {
			report(name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Open starts a server that keeps its data in dir, which is made when missing, and returns once it serves clients. ctx
// bounds the start only. Call Close at the end; dir stays.
func Open(ctx context.Context, k Kind, dir string, o testprocess.Options) (*testprocess.Server, error) {
	d, err := k.definition()
	if err != nil {
		return nil, err
	}
	return family.Open(ctx, string(k), d.software(), dir, o)
}

// Database makes an empty database in a server that [Open] started, and returns its URI.
func Database(ctx context.Context, s *testprocess.Server) (uri string, err error) {
	d, err := Kind(s.Name()).definition()
	if err != nil {
		return "", err
	}
	if uri, err = d.database(ctx, s); err != nil {
		return "", fmt.Errorf("make a database in %s at %s: %w", s.Name(), s.Addr(), err)
	}
	return uri, nil
}
