package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/shard/shardhttp"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/direct"
)

// service is several processes that share keys, and what their work has noted.
type service struct {
	t     *testing.T
	store *memory.Store

	mu     sync.Mutex
	owner  map[string]string // instance by key
	tokens map[string]int64
	starts map[string]int
	wrong  []string
	more   chan struct{} // closed at the next change
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{
		t: t, store: memory.New(), owner: map[string]string{}, tokens: map[string]int64{}, starts: map[string]int{},
		more: make(chan struct{}),
	}
	t.Cleanup(func() {
		for _, w := range s.wrong {
			t.Error(w)
		}
	})
	return s
}

// work notes who works on what until it has to end.
func (s *service) work(instance string) shard.Work {
	return func(ctx context.Context, own shard.Lease) error {
		s.begin(instance, own)
		<-ctx.Done()
		s.change(func() { delete(s.owner, own.Name()) })
		return nil
	}
}

func (s *service) begin(instance string, own shard.Lease) {
	s.change(func() {
		if other := s.owner[own.Name()]; other != "" {
			s.wrong = append(s.wrong, fmt.Sprintf("%s runs on %s and on %s", own.Key(), other, instance))
		}
		if own.Token() <= s.tokens[own.Name()] {
			s.wrong = append(s.wrong, fmt.Sprintf("%s: token %d after %d", own.Key(), own.Token(), s.tokens[own.Name()]))
		}
		s.owner[own.Name()], s.tokens[own.Name()] = instance, own.Token()
		s.starts[own.Name()]++
	})
}

func (s *service) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.more)
	s.more = make(chan struct{})
}

// wait waits until what holds of the notes.
func (s *service) wait(what string, holds func() bool) {
	s.t.Helper()
	limit := time.After(time.Minute)
	for {
		s.mu.Lock()
		ok, more := holds(), s.more
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-limit:
			s.t.Fatalf("%s: not within a minute; owners %v", what, s.owner)
		}
	}
}

// shares waits until each instance works on so many keys.
func (s *service) shares(want map[string]int) {
	s.t.Helper()
	s.wait(fmt.Sprint(want), func() bool {
		got := map[string]int{}
		for _, instance := range s.owner {
			got[instance]++
		}
		return maps.Equal(got, want)
	})
}

// start starts an instance, which ends with the test. It goes by Go's clock, that of a bubble.
func (s *service) start(instance string, cfg shard.Config, work shard.Work) *shard.Replica {
	s.t.Helper()
	cfg.Options.SetClock(elect.GoClock())
	cfg.Options.OpenStore, cfg.Instance, cfg.Lease, cfg.Settle = s.store.Client(), instance, 2*time.Second, 300*time.Millisecond
	r, err := shard.Start(context.Background(), cfg, work)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return r
}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("topic-%d", i)
	}
	return all
}

func TestKeysAreSpreadAndHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		cfg := shard.Config{Group: "topics", Keys: names(10), Cap: 8}
		a := s.start("a", cfg, s.work("a"))
		s.shares(map[string]int{"a": 8}) // the cap
		cfg.Address = "10.0.0.2:9000"
		b := s.start("b", cfg, s.work("b"))
		s.shares(map[string]int{"a": 5, "b": 5})
		for range b.Watch(t.Context()) {
			if len(b.Owned()) == 5 {
				break
			}
		}
		s.mu.Lock()
		for _, key := range b.Owned() {
			if o, ok := b.Owner(key); !ok || o.Instance != "b" || o.Address != cfg.Address ||
				o.Token != s.tokens[strings.TrimPrefix(key, "topics/")] {
				t.Errorf("owner of %s: %+v, %v", key, o, ok)
			}
		}
		s.mu.Unlock()
		if err := a.SetCap("topics", 3); err != nil {
			t.Fatal(err)
		}
		s.shares(map[string]int{"a": 3, "b": 7})
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		s.shares(map[string]int{"b": 8})
		if o, ok := b.Owner("topics/none"); ok {
			t.Errorf("a key that is not there has the owner %+v", o)
		}
	})
}

func TestWorkThatEndsIsStartedAgainUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		ends := []func() error{
			func() error { return nil },
			func() error { return errors.New("the queue is away") },
			func() error { panic("a bug") },
			func() error { return fmt.Errorf("no more messages: %w", shard.ErrDone) },
		}
		cfg := shard.Config{Groups: []shard.Group{{Name: "imports", Keys: []string{"one"}}}}
		cfg.Groups[0].Task.Backoff.Initial, cfg.Groups[0].Task.Backoff.Max = time.Millisecond, time.Millisecond
		var started atomic.Int32
		r := s.start("a", cfg, func(_ context.Context, own shard.Lease) error {
			s.begin("a", own)
			defer s.change(func() { delete(s.owner, own.Name()) })
			return ends[min(int(started.Add(1)), len(ends))-1]()
		})
		page := serve(t, r)
		s.wait("four starts", func() bool { return s.starts["one"] == len(ends) })
		waitState(t, page, "imports/one", "done")
		b := s.start("b", cfg, s.work("b"))
		waitState(t, serve(t, b), "imports/one", "done")
		if n := started.Load(); int(n) != len(ends) {
			t.Errorf("%d starts, want %d: done is done everywhere", n, len(ends))
		}
	})
}

// serve returns a client of the handler.
func serve(t *testing.T, r *shard.Replica) *client.Client {
	t.Helper()
	c, err := client.New("http://replica", client.WithHTTPClient(direct.Client(shardhttp.Handler(r, shardhttp.Options{}))))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func waitState(t *testing.T, c *client.Client, key, state string) {
	t.Helper()
	group, name, _ := strings.Cut(key, "/")
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		task, err := c.Tasks().Get(t.Context(), group, name)
		if err == nil && string(task.State) == state {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s is %+v (%v), want %s", key, task, err, state)
		}
	}
}

func TestValuesOutliveTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		read := make(chan string, 2)
		work := func(ctx context.Context, own shard.Lease) error {
			value, err := own.Value(ctx)
			if err != nil {
				return err
			}
			if err := own.SetValue(ctx, append(value, 'x')); err != nil {
				return err
			}
			if !own.Valid() || !own.Deadline().After(time.Now()) {
				read <- "the lease is not valid"
			}
			read <- string(value)
			<-ctx.Done()
			return nil
		}
		cfg := shard.Config{Group: "topics", Keys: []string{"one"}}
		a := s.start("a", cfg, work)
		if got := <-read; got != "" {
			t.Errorf("the first value is %q", got)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		s.start("b", cfg, work)
		if got := <-read; got != "x" {
			t.Errorf("the value of the owner before is %q, want x", got)
		}
	})
}

// Work that was asked to end keeps how far it came, under its own context, and the next owner goes on there.
func TestLastValueAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		read := make(chan string, 2)
		work := func(ctx context.Context, own shard.Lease) error {
			value, err := own.Value(ctx)
			if err != nil {
				return err
			}
			read <- string(value)
			<-ctx.Done()
			return own.SetValue(ctx, []byte("last"))
		}
		cfg := shard.Config{Group: "topics", Keys: []string{"one"}}
		a := s.start("a", cfg, work)
		<-read
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		s.start("b", cfg, work)
		if got := <-read; got != "last" {
			t.Errorf("the next owner reads %q, want last", got)
		}
	})
}

// TestWorkAdvances holds that work which goes on gets a larger token, that others see it, and that its value is under
// it.
func TestWorkAdvances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		tokens := make(chan [2]int64, 2)
		work := func(ctx context.Context, own shard.Lease) error {
			first := own.Token()
			token, err := own.Advance(ctx)
			if err != nil {
				return err
			}
			if own.Token() != token || own.SetValue(ctx, nil) != nil {
				t.Errorf("token %d after Advance gave %d", own.Token(), token)
			}
			tokens <- [2]int64{first, token}
			<-ctx.Done()
			return nil
		}
		cfg := shard.Config{Group: "topics", Keys: []string{"one"}}
		a := s.start("a", cfg, work)
		got := <-tokens
		if got[1] <= got[0] {
			t.Errorf("the token goes from %d to %d", got[0], got[1])
		}
		for range a.Watch(t.Context()) {
			if o, ok := a.Owner("topics/one"); ok && o.Token == got[1] {
				break
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		s.start("b", cfg, work)
		if next := <-tokens; next[0] <= got[1] {
			t.Errorf("the next start has the token %d after %d", next[0], got[1])
		}
	})
}

func TestListsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		var mu sync.Mutex
		list, failure := names(2), errors.New("the broker is away")
		asked := make(chan struct{}, 100)
		a := s.start("a", shard.Config{Groups: []shard.Group{
			{Name: "found", KeysEvery: time.Second, KeysFrom: func(context.Context) ([]string, error) {
				asked <- struct{}{}
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(list), failure
			}},
			{Name: "slots", Slots: 3},
			{Name: "fixed", Keys: []string{"f1", "f2"}},
		}}, s.work("a"))
		<-asked
		<-asked // the first list is waited for
		set := func(to []string, err error) { mu.Lock(); list, failure = to, err; mu.Unlock() }
		has := func(want ...string) {
			t.Helper()
			s.wait(fmt.Sprint(want), func() bool {
				return slices.Equal(slices.Sorted(maps.Keys(s.owner)), slices.Sorted(slices.Values(want)))
			})
		}
		rest := []string{"slot-000", "slot-001", "slot-002", "f1", "f2"}
		set(names(2), nil)
		has(append(rest, "topic-0", "topic-1")...)
		set(names(3)[1:], nil)
		has(append(rest, "topic-1", "topic-2")...)
		set([]string{"not a name"}, nil) // refused: the last one stays
		waitProblem(t, serve(t, a), "ConfigInvalid", true)
		has(append(rest, "topic-1", "topic-2")...)
		if err := a.SetKeys("fixed", []string{"f2", "f3"}); err != nil {
			t.Fatal(err)
		}
		has("slot-000", "slot-001", "slot-002", "f2", "f3", "topic-1", "topic-2")
		for _, test := range []struct {
			group string
			keys  []string
			want  string
		}{
			{"slots", []string{"a"}, `group "slots" has slots`},
			{"none", []string{"a"}, `there is no group "none"`},
			{"fixed", []string{"a", "a"}, `group "fixed" has the key "a" twice`},
			{"fixed", []string{"a b"}, `group "fixed" has the key "a b", must be`},
		} {
			if err := a.SetKeys(test.group, test.keys); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("SetKeys(%q, %q): %v, want %s", test.group, test.keys, err, test.want)
			}
		}
	})
}

// A cap changes wherever the keys come from.
func TestCapsChange(t *testing.T) {
	list := func(context.Context) ([]string, error) { return names(4), nil }
	for name, group := range map[string]shard.Group{
		"Keys": {Keys: names(4)}, "KeysFrom": {KeysFrom: list}, "Slots": {Slots: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				group.Name = "topics"
				a := s.start("a", shard.Config{Groups: []shard.Group{group}}, s.work("a"))
				s.shares(map[string]int{"a": 4})
				if err := a.SetCap("topics", 3); err != nil {
					t.Fatal(err)
				}
				s.shares(map[string]int{"a": 3})
				if a.SetCap("topics", -1) == nil {
					t.Error("a cap below 0 was taken")
				}
			})
		})
	}
}

// What is wrong with the list of one group stays shown while another group changes.
func TestListsThatCannotBeHadStayShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, calls := newService(t), 0
		a := s.start("a", shard.Config{Groups: []shard.Group{
			{Name: "found", KeysEvery: time.Second, KeysFrom: func(ctx context.Context) ([]string, error) {
				switch calls++; calls {
				case 1:
					return names(2), nil
				case 2:
					return nil, errors.New("the broker is away")
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			{Name: "fixed", Keys: []string{"f1"}},
		}}, s.work("a"))
		c := serve(t, a)
		waitProblem(t, c, "ConfigInvalid", true)
		if err := a.SetKeys("fixed", []string{"f2"}); err != nil {
			t.Fatal(err)
		}
		s.wait("f2 runs", func() bool { return s.owner["f2"] == "a" })
		status, err := c.Status(t.Context())
		invalid := func(p api.Problem) bool { return p.Reason == "ConfigInvalid" }
		if err != nil || !slices.ContainsFunc(status.Problems, invalid) {
			t.Errorf("%+v, %v", status.Problems, err)
		}
		if a.SetKeys("found", []string{"a b"}) == nil {
			t.Error("a list that is wrong was taken")
		}
		if err := a.SetKeys("found", names(2)); err != nil { // as it was
			t.Fatal(err)
		}
		waitProblem(t, c, "ConfigInvalid", false)
	})
}

// waitProblem waits until a problem is shown, or no longer is.
func waitProblem(t *testing.T, c *client.Client, reason string, shown bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, err := c.Status(t.Context())
		has := func(p api.Problem) bool { return p.Reason == reason }
		if err == nil && slices.ContainsFunc(status.Problems, has) == shown {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("problem %s is not %t: %+v, %v", reason, shown, status, err)
		}
	}
}

func TestNothingIsRemovedUntilListsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		a := s.start("a", shard.Config{Group: "topics", Keys: names(4)}, s.work("a"))
		s.shares(map[string]int{"a": 4})
		b := s.start("b", shard.Config{Group: "topics", Keys: names(6)[1:]}, s.work("b"))
		waitProblem(t, serve(t, b), "ConfigDiffers", true)
		s.wait("the new keys run", func() bool { return len(s.owner) == 6 })
		s.wait("topic-0 runs on, as a still has it", func() bool { return s.owner["topic-0"] == "a" })
		if err := a.SetKeys("topics", names(6)[1:]); err != nil {
			t.Fatal(err)
		}
		s.wait("topic-0 is gone", func() bool { return s.owner["topic-0"] == "" && len(s.owner) == 5 })
	})
}

// TestProcessesNoticeWhatDiffers holds that lists with the same keys differ when others may own them, or they run
// otherwise.
func TestProcessesNoticeWhatDiffers(t *testing.T) {
	for name, change := range map[string]func(*shard.Group){
		"selector": func(g *shard.Group) { g.Selector = map[string]string{"pool": "b"} },
		"backoff":  func(g *shard.Group) { g.Task.Backoff.Initial = time.Minute },
		"schedule": func(g *shard.Group) { g.Task.Every = time.Hour },
		"labels":   func(g *shard.Group) { g.Task.Labels = map[string]string{"team": "edge"} },
		"weight":   func(g *shard.Group) { g.Weight = func(string) int { return 2 } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				cfg := shard.Config{Groups: []shard.Group{{Name: "topics", Keys: names(2)}}}
				cfg.Options.Labels = map[string]string{"pool": "b"}
				a := s.start("a", cfg, s.work("a"))
				cfg.Groups = slices.Clone(cfg.Groups)
				change(&cfg.Groups[0])
				s.start("b", cfg, s.work("b"))
				waitProblem(t, serve(t, a), "ConfigDiffers", true)
			})
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	one := []string{"one"}
	work := func(context.Context, shard.Lease) error { return nil }
	for name, test := range map[string]struct {
		cfg  shard.Config
		work shard.Work
		want []string
	}{
		"nothing": {want: []string{
			"needs one of Store and OpenStore", `group "" has no name`,
			`group "" needs one of Keys, KeysFrom and Slots`, `group "" has no work`,
		}},
		"ranges": {
			work: work, cfg: shard.Config{
				Store: "sqlite:x", Lease: time.Millisecond,
				Groups: []shard.Group{
					{Name: "g", Slots: -1, Cap: -2}, {Name: "h", Keys: one, KeysEvery: time.Millisecond},
				},
				Options: shard.Options{MaxKeys: -1}, Instance: "A b", Address: ":9000",
			},
			want: []string{
				"Slots -1, must be from 1", "Cap -2, must be", "has Lease 1ms, must be from 1s to 24h",
				`"h" has KeysEvery 1ms, must be at least 1s`, "MaxKeys -1", `Instance "A b", must be a DNS name`,
				`Address ":9000", must be HOST:PORT`,
			},
		},
		"names": {work: work, cfg: shard.Config{Store: "sqlite:x", Groups: []shard.Group{
			{Name: "g", Keys: []string{"a", "a"}},
			{Name: "g", Keys: one},
			{Name: "h", Keys: []string{"a b"}},
			{Name: "i", Keys: one, Slots: 2},
			{Name: "B", Keys: one},
		}}, want: []string{
			`"g" has the key "a" twice`, `"g" is there twice`, `"h" has the key "a b"`,
			`"i" needs one of`, `"B" has no name`,
		}},
		"both": {work: work, cfg: shard.Config{
			Store: "sqlite:x", Group: "g", Keys: one, Cap: 2, Groups: []shard.Group{{Name: "h", Keys: one}},
		}, want: []string{"has both Groups and Group, Keys, Cap, must have either"}},
		"store": {work: work, cfg: shard.Config{Store: "nosuch://x", Group: "g", Keys: one}, want: []string{"Store: ", "must be sqlite:PATH (is the package of its driver imported?)"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := shard.Run(t.Context(), test.cfg, test.work)
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// TestEndsThoughTheStoreIsAway holds that a process whose store is away can be ended.
func TestEndsThoughTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		db := s.store.Client()
		options := shard.Options{OpenStore: db}
		options.SetClock(elect.GoClock())
		r, err := shard.Start(t.Context(), shard.Config{
			Options: options, Instance: "a", Lease: time.Second, Group: "topics", Keys: names(1),
		}, s.work("a"))
		if err != nil {
			t.Fatal(err)
		}
		s.shares(map[string]int{"a": 1})
		db.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} })
		if err := r.Close(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("it ended with %v", err)
		}
		s.shares(map[string]int{})
	})
}

// Work that outlives its lease is reported with its keys, while there is still time to end it.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, stuck, begun, end := memory.New(), make(chan []string, 1), make(chan struct{}), make(chan struct{})
		options := shard.Options{OpenStore: db}
		options.SetClock(elect.GoClock())
		r, err := shard.Start(t.Context(), shard.Config{
			Options: options, Instance: "a", Lease: time.Second, Group: "topics", Keys: []string{"one"},
			Overrun: func(keys []string) { stuck <- keys },
		}, func(context.Context, shard.Lease) error {
			close(begun)
			<-end
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		away := time.Now()
		db.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} })
		keys := <-stuck
		if took := time.Since(away); !slices.Equal(keys, []string{"topics/one"}) || took >= time.Second {
			t.Errorf("%v after %v, want topics/one before the lease is over", keys, took)
		}
		close(end)
		if err := r.Close(); err == nil {
			t.Error("it ended without an error though the lease was lost")
		}
	})
}

// A load that is no number is refused.
func TestLoadsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		r := s.start("a", shard.Config{Group: "topics", Keys: names(1)}, s.work("a"))
		s.shares(map[string]int{"a": 1})
		for _, load := range []float64{-1, math.NaN(), math.Inf(1)} {
			if err := r.SetLoad("topics/topic-0", load); err == nil {
				t.Errorf("a load of %v is taken", load)
			}
		}
		if err := r.SetLoad("topics/topic-0", 7); err != nil {
			t.Error(err)
		}
		// Loads are published under a key of their own, which is none of the program's.
		for range r.Watch(t.Context()) {
			held := r.Inside().Cluster().View().Held
			if held["~weights/topics"].Phase == cluster.PhaseRunning && held["topics/topic-0"].Phase == cluster.PhaseRunning {
				break
			}
		}
		if owned := r.Owned(); !slices.Equal(owned, []string{"topics/topic-0"}) {
			t.Errorf("owned: %v", owned)
		}
	})
}

// A program that configures no logger reads what happens in the one that it has anyway.
func TestLogsToTheDefaultLogger(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for name, own := range map[string]bool{"default": false, "its own": true} {
		synctest.Test(t, func(t *testing.T) {
			var written, other lockedBuffer
			cfg := shard.Config{Group: "topics", Keys: names(1)}
			slog.SetDefault(slog.New(slog.NewTextHandler(&written, nil)))
			if own {
				slog.SetDefault(slog.New(slog.NewTextHandler(&other, nil)))
				cfg.Logger = slog.New(slog.NewTextHandler(&written, nil))
			}
			s := newService(t)
			s.start("a", cfg, s.work("a"))
			s.shares(map[string]int{"a": 1})
			if got := written.String(); !strings.Contains(got, "instance=a") || !strings.Contains(got, "key=topics/topic-0") {
				t.Errorf("%s: nothing of the key's claim in %q", name, got)
			}
			if got := other.String(); got != "" {
				t.Errorf("%s: the default logger got %q", name, got)
			}
		})
	}
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
