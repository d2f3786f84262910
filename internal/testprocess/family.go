//go:build unix

package testprocess

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// What a family's variable may say.
const (
	none     = "none"
	required = "required"
)

// noneError is the name of a family's variable that says "none".
type noneError string

func (e noneError) Error() string { return string(e) + ` is "` + none + `"` }

// provideTimeout bounds the start of a server, a fetch of its programs included.
const provideTimeout = 10 * time.Minute

// Family is kinds of servers that tests have or lack together. Make one of it with a pointer, for the whole process.
type Family struct {
	// Variable is in the environment of tests. As "none" no server of the family is found, also where it is installed,
	// and tests that need one are skipped. As "required" it has those fail that lack theirs, instead of being skipped.
	// Empty: no test is skipped.
	Variable string
	// Target is where those tests run that "none" leaves out: make stores-short.
	Target string
}

// Handle is a server, or several that belong together.
type Handle interface {
	// LogTail is the last lines that it printed.
	LogTail(lines int) string
	// Close ends it for good.
	Close()
}

// Skip skips a test that needs a real server of this name and is to run without.
func (f *Family) Skip(tb testing.TB, name string) {
	tb.Helper()
	if f.Variable == "" {
		return
	}
	if testing.Short() {
		tb.Skipf("needs a real %s, which go test -short leaves out", name)
	}
	if f.none() {
		tb.Skipf("needs a real %s, which %s has", name, f.Target)
	}
}

func (f *Family) none() bool { return os.Getenv(f.Variable) == none }

// Provide finds the programs of one kind or fetches them: see [Software].
func (f *Family) Provide(ctx context.Context, kind string, s Software) error {
	if f.none() {
		return Missing(kind, "%w", noneError(f.Variable))
	}
	return s.Provide(ctx)
}

// Open is [Open] for a server of the family.
func (f *Family) Open(ctx context.Context, name string, s Software, dir string, o Options) (*Server, error) {
	if err := f.Provide(ctx, name, s); err != nil {
		return nil, err
	}
	return open(ctx, name, s, dir, o)
}

// Need skips or fails a test that needs what cannot be had: the error is that of provide.
func (f *Family) Need(tb testing.TB, name string, provide func(context.Context) error) {
	tb.Helper()
	f.Skip(tb, name)
	ctx, cancel := context.WithTimeout(tb.Context(), provideTimeout)
	defer cancel()
	if err := provide(ctx); err != nil {
		f.Fail(tb, err)
	}
}

// Fail ends a test whose server cannot be had.
func (f *Family) Fail(tb testing.TB, err error) {
	tb.Helper()
	if f.Variable != "" && errors.Is(err, ErrMissing) && os.Getenv(f.Variable) != required {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// Fresh is a server of a test, which ends with it. name is for the line that says why the test is skipped. The context
// that open gets bounds the start only.
func Fresh[H Handle](
	tb testing.TB, f *Family, name string, open func(ctx context.Context, dir string) (H, error),
) H {
	tb.Helper()
	f.Skip(tb, name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), provideTimeout)
	defer cancel()
	work, err := WorkDir("server")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := work.Close(false); err != nil {
			tb.Error(err)
		}
	})
	server, err := open(ctx, work.Data())
	if err != nil {
		f.Fail(tb, err)
	}
	tb.Cleanup(func() {
		logOnFailure(tb, server)
		server.Close()
	})
	return server
}

func logOnFailure(tb testing.TB, server Handle) {
	tb.Helper()
	if tb.Failed() {
		tb.Log(server.LogTail(20))
	}
}

// Name is a name for a topic, queue or database that no other test uses: letters and digits, beginning with a letter.
func Name() string { return "t" + strings.ToLower(rand.Text()[:12]) }
