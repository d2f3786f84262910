package dbstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// backend answers as its functions say.
type backend struct {
	traits  dbstore.Traits
	cas     func(changes []driver.Change, attempt int) ([]dbstore.Result, error)
	confirm func() error
	get     func(ids []string) (dbstore.Page, error) // nil: it never answers
	scan    func(q driver.Query) dbstore.Page
	tail    func(ctx context.Context, begun func(), emit func(dbstore.Event)) error
}

func (b *backend) Traits() dbstore.Traits { return b.traits }

func (b *backend) CAS(_ context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	return b.cas(changes, attempt)
}

func (b *backend) Confirm(context.Context, []driver.Change) error { return b.confirm() }

func (b *backend) Get(ctx context.Context, _ driver.Kind, ids []string) (dbstore.Page, error) {
	if b.get != nil {
		return b.get(ids)
	}
	<-ctx.Done()
	return dbstore.Page{}, context.Cause(ctx)
}

func (b *backend) Scan(_ context.Context, _ driver.Kind, q driver.Query) (dbstore.Page, error) {
	return b.scan(q), nil
}

func (b *backend) Tail(ctx context.Context, _ driver.Interest, begun func(), emit func(dbstore.Event)) error {
	return b.tail(ctx, begun, emit)
}

func (*backend) Translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (*backend) Close(context.Context) error { return nil }

func open(t *testing.T, b *backend) *dbstore.Store {
	t.Helper()
	s := dbstore.New(t.Context(), b, logr.Discard())
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(id string, ifRev int64, body int) driver.Change {
	return driver.Change{IfRev: ifRev, Doc: driver.Doc{
		Kind: driver.KindValue, ID: id, Rev: ifRev + 1, WriterID: driver.WriterID{Session: "s", Seq: 1},
		Body: make([]byte, body),
	}}
}

// Long lists are divided by number and by size, and each change has its own outcome.
func TestApplyDivides(t *testing.T) {
	var mu sync.Mutex
	var sizes []int
	b := &backend{traits: dbstore.Traits{MaxChanges: 100, MaxBytes: 1 << 20, AtOnce: 4}}
	b.cas = func(changes []driver.Change, _ int) ([]dbstore.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		results, size := make([]dbstore.Result, len(changes)), 0
		for i, c := range changes {
			results[i].Written = c.IfRev == 0
			size += len(c.Doc.Body)
		}
		if sizes = append(sizes, len(changes)); len(changes) > 100 || size > 1<<20 {
			t.Errorf("%d changes of %d bytes", len(changes), size)
		}
		return results, nil
	}
	var changes []driver.Change
	for i := range 290 {
		size := 0
		if i >= 250 {
			size = driver.MaxBody
		}
		changes = append(changes, put(fmt.Sprint(i), int64(i%2), size))
	}
	outs, err := open(t, b).Apply(t.Context(), changes...)
	if err != nil || len(sizes) < 5 {
		t.Fatalf("parts of %v, %v", sizes, err)
	}
	for i, out := range outs {
		if want := []driver.Status{driver.Applied, driver.Overtaken}[i%2]; out.Status != want {
			t.Errorf("change %d: %+v, want status %d", i, out, want)
		}
	}
}

// A change is sent again while its condition holds on what refused it, and no other is.
func TestApplySendsAgain(t *testing.T) {
	var sent []string
	b := &backend{cas: func(changes []driver.Change, attempt int) ([]dbstore.Result, error) {
		results := make([]dbstore.Result, len(changes))
		for i, c := range changes {
			sent = append(sent, fmt.Sprint(attempt, c.Doc.ID))
			if results[i].Written = attempt == 2; c.Doc.ID == "refused" {
				results[i].Found = &driver.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: 1}
			}
		}
		return results, nil
	}}
	outs, err := open(t, b).Apply(t.Context(), put("a", 0, 0), put("refused", 0, 0))
	if err != nil || outs[0].Status != driver.Applied || outs[1].Status != driver.Refused {
		t.Errorf("%+v, %v", outs, err)
	}
	if want := []string{"0a", "0refused", "1a", "2a"}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// What is found to be written already counts once it is confirmed. Without an answer it is not known.
func TestApplyConfirmsWhatIsFound(t *testing.T) {
	lost := errors.New("lost")
	for name, tt := range map[string]struct {
		confirm error
		want    driver.Status
	}{"confirmed": {nil, driver.Applied}, "lost": {lost, driver.Unknown}} {
		c := put("a", 4, 0)
		outs, err := open(t, &backend{
			cas: func([]driver.Change, int) ([]dbstore.Result, error) {
				return []dbstore.Result{{Found: &c.Doc}}, nil
			},
			confirm: func() error { return tt.confirm },
		}).Apply(t.Context(), c)
		if err != nil || outs[0].Status != tt.want || !errors.Is(outs[0].Err, tt.confirm) {
			t.Errorf("%s: %+v, %v", name, outs, err)
		}
	}
}

// With an error, changes without a result are of unknown outcome, and the others keep theirs.
func TestApplyUnanswered(t *testing.T) {
	b := &backend{cas: func([]driver.Change, int) ([]dbstore.Result, error) {
		return []dbstore.Result{{Written: true}}, errors.New("lost")
	}}
	outs, err := open(t, b).Apply(t.Context(), put("a", 0, 0), put("b", 0, 0))
	if err != nil || outs[0].Status != driver.Applied || outs[1].Status != driver.Unknown ||
		!errors.Is(outs[1].Err, driver.ErrUnavailable) {
		t.Errorf("%+v, %v", outs, err)
	}
}

// What a backend has not read is read back, in one call. A change whose answer was lost is not sent again.
func TestApplyReadsBack(t *testing.T) {
	lost, refused := errors.New("lost"), fmt.Errorf("%w: no rights", driver.ErrInvalid)
	written, later := put("written", 4, 0), put("later", 4, 0)
	later.Doc.Rev = 9
	found := []driver.Doc{later.Doc, written.Doc, {Kind: driver.KindValue, ID: "malformed"}}
	for name, tt := range map[string]struct {
		c      driver.Change
		err    error
		get    error
		status driver.Status
		says   error
	}{
		"found":             {c: written, err: lost, status: driver.Applied},
		"written over":      {c: put("later", 4, 0), err: lost, status: driver.Overtaken},
		"not there":         {c: put("absent", 0, 0), err: lost, status: driver.Unknown, says: lost},
		"malformed":         {c: put("malformed", 0, 0), err: lost, status: driver.Unknown, says: lost},
		"sent again":        {c: put("absent", 0, 0), status: driver.Applied},
		"refused for good":  {c: written, err: refused, status: driver.Unknown, says: driver.ErrInvalid},
		"cannot be read":    {c: written, err: lost, get: refused, status: driver.Unknown, says: refused},
		"lost increment":    {c: increment(), err: lost, status: driver.Unknown, says: lost},
		"not read, unknown": {c: written, get: lost, status: driver.Unknown, says: lost},
	} {
		outs, err := open(t, &backend{
			cas: func(_ []driver.Change, attempt int) ([]dbstore.Result, error) {
				return []dbstore.Result{{Err: tt.err, Unread: true, Written: attempt > 0}}, nil
			},
			get:     func([]string) (dbstore.Page, error) { return dbstore.Page{Docs: slices.Clone(found)}, tt.get },
			confirm: func() error { return nil },
		}).Apply(t.Context(), tt.c)
		if err != nil || outs[0].Status != tt.status || !errors.Is(outs[0].Err, tt.says) {
			t.Errorf("%s: %+v, %v", name, outs, err)
		}
	}
}

func increment() driver.Change {
	return driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}}
}

// A page that unreadable documents leave short is filled, in both directions.
func TestListFillsPages(t *testing.T) {
	all := []driver.Doc{{ID: "", Rev: 1}, {ID: "a", Rev: 1}, {ID: "b"}, {ID: "c"}, {ID: "d", Rev: 1}, {ID: "e"}}
	b := &backend{scan: func(q driver.Query) (p dbstore.Page) {
		docs := slices.Clone(all)
		if q.Reverse {
			slices.Reverse(docs)
		}
		for _, d := range docs {
			if d.ID >= q.From && (q.To == "" || d.ID < q.To) && len(p.Docs) < q.Limit {
				p.Docs = append(p.Docs, d)
			}
		}
		p.More = len(p.Docs) == q.Limit
		return p
	}}
	for reverse, want := range map[bool]string{false: "a d", true: "d a"} {
		for limit := 1; limit < 4; limit++ {
			reply, err := open(t, b).List(t.Context(), driver.KindValue, driver.Query{Limit: limit, Reverse: reverse})
			got := ""
			for _, d := range reply.Docs {
				got += " " + d.ID
			}
			if full := " " + want; err != nil || got != full[:min(len(full), 2*limit)] {
				t.Errorf("limit %d, reverse %t: %q, %v", limit, reverse, got, err)
			}
		}
	}
}

// A call ends with the store.
func TestCloseEndsCalls(t *testing.T) {
	for _, detached := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := dbstore.New(t.Context(), &backend{traits: dbstore.Traits{Detached: detached}}, logr.Discard())
			done := make(chan error, 1)
			go func() {
				_, err := s.Read(t.Context(), driver.KindLock, "g/a")
				done <- err
			}()
			synctest.Wait()
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, dbstore.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// shared is a backend whose one tail is driven by what comes out of a channel; a nil event breaks it.
func shared(begin <-chan struct{}, events <-chan *dbstore.Event) *backend {
	return &backend{
		traits: dbstore.Traits{SharedTail: true, Timeout: time.Minute},
		tail: func(ctx context.Context, begun func(), emit func(dbstore.Event)) error {
			select {
			case <-begin:
				begun()
			case <-ctx.Done():
				return ctx.Err()
			}
			for {
				select {
				case e := <-events:
					if e == nil {
						return errors.New("broken")
					}
					emit(*e)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		},
	}
}

// All watchers share a tail, are notified of what they are interested in, end with it, and begin again.
func TestSharedTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, events := make(chan struct{}), make(chan *dbstore.Event)
		close(begin)
		s := open(t, shared(begin, events))
		watch := func(ctx context.Context, groups ...string) <-chan driver.Notification {
			t.Helper()
			c, err := s.Watch(ctx, driver.Interest{Groups: groups})
			if err != nil {
				t.Fatal(err)
			}
			if n := <-c; !n.Resync {
				t.Fatalf("first %+v, want a Resync", n)
			}
			return c
		}
		first, leave := context.WithCancel(t.Context())
		a, all := watch(first, "a"), watch(t.Context())
		events <- &dbstore.Event{About: driver.Doc{Kind: driver.KindGroup, ID: "b"}}
		events <- &dbstore.Event{About: driver.Doc{Kind: driver.KindGroup, ID: "a"}}
		if n := <-a; n.ID != "a" {
			t.Errorf("%+v", n)
		}
		if n, m := <-all, <-all; n.ID != "b" || m.ID != "a" {
			t.Errorf("%+v, %+v", n, m)
		}
		leave()
		if _, open := <-a; open {
			t.Error("it does not end with its context")
		}
		events <- &dbstore.Event{Resync: true}
		if n := <-all; !n.Resync {
			t.Errorf("%+v", n)
		}
		events <- nil
		if _, open := <-all; open {
			t.Error("it does not end with the tail")
		}
		again := watch(t.Context())
		events <- &dbstore.Event{About: driver.Doc{Kind: driver.KindGroup, ID: "c"}}
		if n := <-again; n.ID != "c" {
			t.Errorf("%+v", n)
		}
	})
}

// A watch that waits for one that is being opened ends with its own context.
func TestWatchThatWaitsForAnotherEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, shared(nil, nil))
		first := make(chan error, 1)
		go func() {
			_, err := s.Watch(t.Context(), driver.Interest{})
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Watch(ctx, driver.Interest{}); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Second {
			t.Errorf("the second: %v after %v", err, time.Since(began))
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("the first: %v after %v", err, time.Since(began))
		}
		// Who comes next does not join one that has failed.
		if _, err := s.Watch(t.Context(), driver.Interest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the next: %v", err)
		}
	})
}
