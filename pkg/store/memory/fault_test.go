package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

func create(id string) driver.Change {
	return driver.Change{
		Doc: driver.Doc{Kind: driver.KindLock, ID: id, Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1}},
	}
}

// Each fault looks alike to the caller; what it leaves in the database and how long it takes is what it says.
func TestFaults(t *testing.T) {
	const limit = time.Second // of the caller's context
	tests := map[string]struct {
		verdict memory.Verdict
		status  driver.Status
		takes   time.Duration
		written bool // when the call returns
		later   bool // written some time later
	}{
		"none": {memory.Verdict{}, driver.Applied, 0, true, true},
		"delay": {
			memory.Verdict{Delay: 300 * time.Millisecond}, driver.Applied, 300 * time.Millisecond, true, true,
		},
		"slow answer": {
			memory.Verdict{AnswerDelay: 300 * time.Millisecond}, driver.Applied, 300 * time.Millisecond, true, true,
		},
		"lost request":       {memory.Verdict{Fault: memory.LoseRequest}, driver.Unknown, 0, false, false},
		"lost answer":        {memory.Verdict{Fault: memory.LoseAnswer}, driver.Unknown, 0, true, true},
		"partition":          {memory.Verdict{Fault: memory.Hang}, driver.Unknown, limit, false, false},
		"request too slow":   {memory.Verdict{Delay: 3 * time.Second}, driver.Unknown, limit, false, false},
		"request comes late": {memory.Verdict{Delay: 3 * time.Second, Late: true}, driver.Unknown, limit, false, true},
		"answer too slow":    {memory.Verdict{AnswerDelay: 3 * time.Second}, driver.Unknown, limit, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				other := s.Client()
				s.Fault(func(memory.Call) memory.Verdict { return tt.verdict })
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				begin := time.Now()
				outs, err := s.Apply(ctx, create("g/a"))
				if err != nil || outs[0].Status != tt.status || time.Since(begin) != tt.takes {
					t.Fatalf(
						"got %+v, %v after %v; want status %d after %v", outs, err, time.Since(begin), tt.status,
						tt.takes,
					)
				}
				if tt.status == driver.Unknown && !errors.Is(outs[0].Err, driver.ErrUnavailable) {
					t.Fatalf("got %v, want ErrUnavailable", outs[0].Err)
				}
				wantThere(t, other, tt.written)
				time.Sleep(5 * time.Second)
				wantThere(t, other, tt.later)
				s.Fault(nil)
				if outs, err := s.Apply(t.Context(), create("g/a")); err != nil || outs[0].Status != driver.Applied {
					t.Fatalf("repeated: %+v, %v", outs, err)
				}
			})
		})
	}
}

func wantThere(t *testing.T, s *memory.Store, want bool) {
	t.Helper()
	res, err := s.Read(t.Context(), driver.KindLock, "g/a")
	if err != nil || (len(res.Docs) == 1) != want {
		t.Fatalf("read %v, %v; want it there: %t", res.Docs, err, want)
	}
}

// A fault function sees what is called, and reads and watches fail as writes do.
func TestFaultSeesCalls(t *testing.T) {
	s := memory.New()
	var seen []string
	s.Fault(func(c memory.Call) memory.Verdict {
		seen = append(seen, fmt.Sprint(c.Op, c.Kind, c.IDs, c.Query.Group, len(c.Changes), c.Interest.Session))
		return memory.Verdict{Fault: memory.LoseAnswer}
	})
	_, readErr := s.Read(t.Context(), driver.KindLock, "b", "a", "b")
	_, listErr := s.List(t.Context(), driver.KindGroup, driver.Query{Group: "g"})
	_, watchErr := s.Watch(t.Context(), driver.Interest{Session: "me"})
	_, _ = s.Apply(t.Context(), create("g/a"), create("g/b"))
	for _, err := range []error{readErr, listErr, watchErr} {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	want := fmt.Sprint([]string{
		fmt.Sprint(memory.OpRead, driver.KindLock, []string{"a", "b"}, "", 0, ""),
		fmt.Sprint(memory.OpList, driver.KindGroup, []string(nil), "g", 0, ""),
		fmt.Sprint(memory.OpWatch, "", []string(nil), "", 0, "me"),
		fmt.Sprint(memory.OpApply, "", []string(nil), "", 2, ""),
	})
	if fmt.Sprint(seen) != want {
		t.Errorf("saw %v, want %v", seen, want)
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		done := make(chan error)
		go func() {
			_, err := s.Read(context.Background(), driver.KindLock, "a")
			done <- err
		}()
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
	})
}

// A watcher that does not read loses notifications and gets a Resync; then it gets each one again.
func TestSlowWatcher(t *testing.T) {
	s := memory.New()
	notifications, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		increment(t, s, fmt.Sprint(i))
	}
	resyncs := 0
	for len(notifications) > 0 {
		if h := <-notifications; h.Resync {
			resyncs++
		}
	}
	if resyncs != 1 {
		t.Fatalf("%d times asked to look at everything, want once", resyncs)
	}
	increment(t, s, "last")
	if h := <-notifications; h.ID != "last" || h.Doc == nil || h.Doc.Count != 1 {
		t.Fatalf("got %+v, want the last group", h)
	}
}

func increment(t *testing.T, s *memory.Store, group string) {
	t.Helper()
	outs, err := s.Apply(
		t.Context(), driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: group}},
	)
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
}

func TestClock(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	s := memory.New(memory.WithClock(func() time.Time { return now }))
	res, err := s.Client().Read(t.Context(), driver.KindLock)
	if err != nil || res.Now != now.UnixMilli() {
		t.Fatalf("now %d, %v; want %d", res.Now, err, now.UnixMilli())
	}
}

// However documents come, change hands and go, the indexes find what a look at every document finds.
func TestIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := memory.New()
		model := map[string]driver.Doc{}
		id := rapid.SampledFrom([]string{"g/a", "g/b", "g/c", "h/a", "h/b"})
		for seq := range rapid.IntRange(1, 60).Draw(t, "steps") {
			step(t, s, model, id.Draw(t, "id"), int64(seq+1))
			for _, q := range []driver.Query{
				{},
				{Group: "g"},
				{Sessions: []string{"", "s1"}},
				{Group: "h", MinRev: 10},
				{Sessions: []string{"s2"}, Unsuspended: true},
				{From: "g/b", To: "h/b"},
				{Group: "g", MinRev: 5, Unsuspended: true, Sessions: []string{"s1", "s2"}},
			} {
				res, err := s.List(context.Background(), driver.KindLock, q)
				if err != nil {
					t.Fatal(err)
				}
				wantDocs(t, res.Docs, model, q)
			}
		}
	})
}

func step(t *rapid.T, s *memory.Store, model map[string]driver.Doc, id string, seq int64) {
	old, there := model[id]
	c := driver.Change{IfRev: old.Rev, Doc: driver.Doc{
		Kind: driver.KindLock, ID: id, Group: id[:1], Rev: old.Rev + rapid.Int64Range(1, 9).Draw(t, "rise"),
		Session:   rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "session"),
		Suspended: rapid.Bool().Draw(t, "suspended"),
		WriterID:  driver.WriterID{Session: "w", Seq: seq},
	}}
	if there && rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
		c.Op = driver.Delete
	}
	outs, err := s.Apply(context.Background(), c)
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatalf("%+v: %+v, %v", c, outs, err)
	}
	if c.Op == driver.Delete {
		delete(model, id)
		return
	}
	model[id] = c.Doc
}

func wantDocs(t *rapid.T, got []driver.Doc, model map[string]driver.Doc, q driver.Query) {
	found := map[string]bool{}
	last := ""
	for _, d := range got {
		if d.ID <= last || fmt.Sprint(d) != fmt.Sprint(model[d.ID]) {
			t.Fatalf("%+v found %+v after %q, want %+v", q, d, last, model[d.ID])
		}
		found[d.ID], last = true, d.ID
	}
	for id, d := range model {
		session := len(q.Sessions) == 0
		for _, s := range q.Sessions {
			session = session || d.Session == s
		}
		want := session && (q.Group == "" || d.Group == q.Group) && d.Rev >= q.MinRev &&
			(!q.Unsuspended || !d.Suspended) &&
			id >= q.From && (q.To == "" || id < q.To)
		if found[id] != want {
			t.Fatalf("%+v: found %s %t, want %t", q, id, found[id], want)
		}
	}
}

// Deleting and creating again and again leaves no dust in the indexes, and the order stays.
func TestChurn(t *testing.T) {
	s := memory.New()
	for i := range 1000 {
		c := create(fmt.Sprintf("g/%03d", i%50+i/500*50))
		if i >= 50 && i%500 >= 50 {
			must(t, s, driver.Change{Op: driver.Delete, IfRev: 1, Doc: c.Doc})
		}
		must(t, s, c)
	}
	res, err := s.List(t.Context(), driver.KindLock, driver.Query{})
	if err != nil || len(res.Docs) != 100 {
		t.Fatalf("%d documents, %v; want 100", len(res.Docs), err)
	}
	for i, d := range res.Docs {
		if d.ID != fmt.Sprintf("g/%03d", i) {
			t.Fatalf("document %d is %s", i, d.ID)
		}
	}
}

func must(tb testing.TB, s *memory.Store, changes ...driver.Change) {
	tb.Helper()
	outs, err := s.Apply(tb.Context(), changes...)
	if err != nil {
		tb.Fatal(err)
	}
	for _, out := range outs {
		if out.Status != driver.Applied {
			tb.Fatalf("got %+v", out)
		}
	}
}

// BenchmarkStore has 100,000 locks of 500 sessions: what a replica asks each interval has to cost what it finds, not
// what there is.
func BenchmarkStore(b *testing.B) {
	const locks, sessions = 100_000, 500
	s := memory.New()
	changes := make([]driver.Change, locks)
	for i := range changes {
		c := create(fmt.Sprintf("g/%06d", (i*7919)%locks))
		c.Doc.Group, c.Doc.Rev, c.Doc.Session = "g", int64(i+1), fmt.Sprint("s", i%sessions)
		changes[i] = c
	}
	must(b, s, changes...)
	queries := map[string]driver.Query{
		"mine":        {Sessions: []string{"s7"}},
		"count mine":  {Sessions: []string{"s7"}, CountOnly: true},
		"unowned":     {Sessions: []string{""}, Unsuspended: true},
		"last 100":    {Group: "g", MinRev: locks - 99},
		"page of 500": {From: "g/050000", Limit: 500},
	}
	for name, q := range queries {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.List(b.Context(), driver.KindLock, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("claim", func(b *testing.B) {
		rev, random := int64(locks), rand.New(rand.NewPCG(1, 2))
		for b.Loop() {
			c := changes[random.IntN(locks)]
			old, err := s.Read(b.Context(), driver.KindLock, c.Doc.ID)
			if err != nil {
				b.Fatal(err)
			}
			rev++
			c.IfRev, c.Doc.Rev, c.Doc.WriterID.Seq = old.Docs[0].Rev, rev, rev
			must(b, s, c)
		}
	})
}
