package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// scripted is a store whose calls end with an error; nil: they are answered.
type scripted struct {
	store.Store

	err error
}

func (s *scripted) Read(context.Context, driver.Kind, ...string) (driver.Reply, error) {
	return driver.Reply{}, s.err
}

func (s *scripted) List(context.Context, driver.Kind, driver.Query) (driver.Reply, error) {
	return driver.Reply{}, s.err
}

// Apply answers each change but those that have the ID "refused".
func (s *scripted) Apply(_ context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs := make([]driver.Outcome, len(changes))
	for i, c := range changes {
		if outs[i].Status = driver.Refused; s.err != nil && c.Doc.ID == "refused" {
			outs[i] = driver.Outcome{Err: s.err}
		}
	}
	return outs, nil
}

const after = 10 * time.Second

func write(kind driver.Kind, id string) driver.Change {
	return driver.Change{Doc: driver.Doc{Kind: kind, ID: id}}
}

// calls are the ways to use documents of a kind: two reads, one write.
func calls(s store.Store, kind driver.Kind) map[string]func() {
	ctx := context.Background()
	return map[string]func(){
		"reads ":  func() { _, _ = s.Read(ctx, kind, "refused") },
		"reads":   func() { _, _ = s.List(ctx, kind, driver.Query{}) },
		"writes":  func() { _, _ = s.Apply(ctx, write(kind, "refused")) },
		"writes ": func() { _, _ = s.Apply(ctx, write(kind, "refused"), write("other", "a")) },
	}
}

// Calls of each kind that fail for long are told, once and with the last error, and listed until one is answered. Other
// calls that are answered change nothing about that.
func TestEveryKindOfCall(t *testing.T) {
	for _, kind := range driver.Kinds() {
		for doing := range calls(nil, kind) {
			t.Run(doing+" of "+string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db := &scripted{err: errors.New("first")}
					var told []refusals.Refusal
					s := refusals.New(db, after, func(r refusals.Refusal) { told = append(told, r) })
					call, began := calls(s, kind)[doing], time.Now()
					call()
					time.Sleep(after - 1)
					call()
					if s.Lasting() != "" || told != nil {
						t.Errorf("told before it lasts: %q, %v", s.Lasting(), told)
					}
					db.err = errors.New("as the database says")
					time.Sleep(time.Nanosecond)
					for range 3 {
						call()
					}
					other := driver.KindSession
					if kind == other {
						other = driver.KindLock
					}
					_, _ = s.Apply(t.Context(), write(other, "good"))
					what := strings.TrimSpace(doing) + " of " + kind.Info().Plural
					if len(told) != 1 || told[0].Doing() != what || !errors.Is(told[0].Err, db.err) {
						t.Errorf("told: %v, want %s by %v, once", told, what, db.err)
					}
					want := fmt.Sprintf("%s fail since %s: as the database says", what, began.UTC().Format(time.RFC3339))
					if got := s.Lasting(); got != want {
						t.Errorf("%q, want %q", got, want)
					}
					db.err = nil
					if call(); s.Lasting() != "" {
						t.Errorf("answered, and %q", s.Lasting())
					}
					db.err = errors.New("again")
					call()
					time.Sleep(after)
					_, _ = s.Apply(t.Context(), write(other, "good"))
					if call(); len(told) != 2 || !strings.Contains(s.Lasting(), "again") {
						t.Errorf("again: %v, %q", told, s.Lasting())
					}
				})
			})
		}
	}
}

// Several refusals are one sentence, and somebody is told once.
func TestSeveralRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := refusals.New(&scripted{err: errors.New("no space")}, after, func(refusals.Refusal) { told++ })
		for range 2 {
			for _, kind := range []driver.Kind{driver.KindSession, driver.KindLock} {
				_, _ = s.Apply(t.Context(), write(kind, "refused"))
			}
			_, _ = s.List(t.Context(), driver.KindEvent, driver.Query{})
			time.Sleep(after)
		}
		if got := s.Lasting(); got != "" {
			t.Errorf("no call is answered: the store is away, and not: %q", got)
		}
		_, _ = s.Apply(t.Context(), write(driver.KindMutex, "good"))
		const want = "writes of sessions, writes of locks, reads of events fail since 2000-01-01T00:00:00Z: no space"
		if got := s.Lasting(); got != want || told != 1 {
			t.Errorf("%q, told %d times; want %q, once", got, told, want)
		}
	})
}

// What says nothing about the store neither begins nor ends a refusal: pauses, calls that were given up, and what no
// store would take. Nor does a call whose answer says that a condition does not hold begin one.
func TestWhatIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &scripted{}
		s := refusals.New(db, after, nil)
		nothing := []error{
			fmt.Errorf("%w: %w: the gate is closed", store.ErrPaused, store.ErrUnavailable),
			fmt.Errorf("%w: %w", store.ErrUnavailable, context.Canceled), driver.ErrMalformed, driver.ErrTooLarge, nil,
		}
		for _, err := range nothing {
			db.err = err
			for range 2 {
				_, _ = s.Apply(t.Context(), write(driver.KindLock, "refused"))
				time.Sleep(after)
			}
			if got := s.Lasting(); got != "" {
				t.Errorf("%v: %q", err, got)
			}
		}
		db.err = errors.New("refused")
		_, _ = s.Apply(t.Context(), write(driver.KindLock, "refused"))
		time.Sleep(after)
		for _, err := range slices.DeleteFunc(nothing, func(err error) bool { return err == nil }) {
			db.err = err
			_, _ = s.Apply(t.Context(), write(driver.KindMutex, "good"))
			if _, _ = s.Apply(t.Context(), write(driver.KindLock, "refused")); s.Lasting() == "" {
				t.Errorf("%v ends a refusal", err)
			}
		}
		db.err = errors.New("refused")
		if _, _ = s.Apply(t.Context(), write(driver.KindLock, "refused"), write(driver.KindLock, "b")); s.Lasting() != "" {
			t.Errorf("another write of the kind was answered, and %q", s.Lasting())
		}
	})
}
