package idempotencystore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencystore"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// process is one process of a cluster.
type process struct {
	elector *elect.Elector
	records idempotency.Records
}

func start(tb testing.TB, db store.Store) process {
	tb.Helper()
	e, err := elect.Start(context.WithoutCancel(tb.Context()), elect.Config{
		Store: db, OnStuck: func([]elect.Key) {},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = e.Close(ctx) // it may have been closed before
	})
	return process{e, idempotencystore.New(e, db)}
}

func (p process) guard(t *testing.T, cfg idempotency.Config) *idempotency.Guard {
	t.Helper()
	cfg.Records = p.records
	g, err := idempotency.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStore(t *testing.T) {
	idempotencytest.Run(t, idempotencytest.Backend{
		NoWait: true,
		Open: func(tb testing.TB) func(idempotency.Config) idempotency.Config {
			tb.Helper()
			db := memory.New()
			p := start(tb, db)
			return func(cfg idempotency.Config) idempotency.Config {
				cfg.Records = p.records
				return cfg
			}
		},
	})
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var request = idempotency.Request{ID: "a"}

// halfWay has a process work until its session is marked dead, as others do when it shows no heartbeat. It returns what
// the process was sent at the end.
func halfWay(t *testing.T, db store.Store, then func()) error {
	t.Helper()
	ctx := bounded(t)
	p := start(t, db)
	g := p.guard(t, idempotency.Config{})
	begun, next, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := g.Do(ctx, request, func(ctx context.Context) (idempotency.Reply, error) {
			close(begun)
			<-ctx.Done() // it hears of it by itself
			<-next
			if cause := context.Cause(ctx); !errors.Is(cause, elect.ErrLeaseLost) {
				t.Errorf("the context of the work ended with %v, want ErrLeaseLost", cause)
			}
			return idempotency.Reply{Body: []byte("late")}, nil
		})
		ended <- err
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatal("the work was not called: ", err)
	}
	session, _ := p.elector.Session()
	if err := electing.MarkDead(ctx, db, electing.Session{ID: session}); err != nil {
		t.Fatal(err)
	}
	then()
	close(next)
	return <-ended
}

func never(t *testing.T) func(context.Context) (idempotency.Reply, error) {
	t.Helper()
	return func(context.Context) (idempotency.Reply, error) {
		t.Error("the work was called")
		return idempotency.Reply{}, nil
	}
}

// Electors clean by the name of the state.
func TestStatesHaveOneName(t *testing.T) {
	if string(idempotency.Started) != record.RequestStarted {
		t.Errorf("%q and %q", idempotency.Started, record.RequestStarted)
	}
}

func TestADeadCallerIsTold(t *testing.T) {
	db := memory.New()
	other := start(t, db).guard(t, idempotency.Config{})
	err := halfWay(t, db, func() {
		for range 2 {
			_, err := other.Do(bounded(t), request, never(t))
			if !errors.Is(err, idempotency.ErrInterrupted) || !errors.Is(err, idempotency.ErrFailed) {
				t.Errorf("repetition: %v, want ErrInterrupted", err)
			}
		}
	})
	if !errors.Is(err, idempotency.ErrTakenOver) {
		t.Errorf("the caller itself: %v, want ErrTakenOver", err)
	}
	if _, err := other.Do(bounded(t), request, never(t)); !errors.Is(err, idempotency.ErrInterrupted) {
		t.Errorf("afterwards: %v, want ErrInterrupted still", err)
	}
}

func TestADeadCallerIsRecoveredFrom(t *testing.T) {
	db := memory.New()
	other := start(t, db).guard(t, idempotency.Config{Recover: true})
	err := halfWay(t, db, func() {
		got, err := other.Do(bounded(t), request, func(ctx context.Context) (idempotency.Reply, error) {
			a := idempotency.AttemptFrom(ctx)
			if a.Number != 2 || a.Before != idempotency.Started {
				t.Errorf("attempt %+v, want the second, after one whose caller died", a)
			}
			return idempotency.Reply{Body: []byte("second")}, nil
		})
		if err != nil || got.Replayed {
			t.Errorf("%+v, %v", got, err)
		}
	})
	if !errors.Is(err, idempotency.ErrTakenOver) {
		t.Errorf("the caller itself: %v, want ErrTakenOver", err)
	}
	if got, err := other.Do(bounded(t), request, never(t)); err != nil || string(got.Body) != "second" {
		t.Errorf("%q, %v, want the reply of the second attempt", got.Body, err)
	}
}

// A session that was removed long ago is dead, but only after it has been missing for a lease.
func TestACallerWhoseSessionIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bubble(t, memory.New())
		_, err := p.records.Write(t.Context(), idempotency.Write{ID: "a", Keep: time.Hour, Record: &idempotency.Record{
			ID: "a", State: idempotency.Started, Owner: "gone", Claim: "c", Attempt: 1,
		}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := p.guard(t, idempotency.Config{}).Do(t.Context(), request, never(t)); !errors.Is(err,
			idempotency.ErrInProgress) {
			t.Fatalf("at first: %v, want ErrInProgress", err)
		}
		_, err = p.guard(t, idempotency.Config{Wait: true}).Do(bounded(t), request, never(t))
		const lease = 20 * time.Second
		if took := time.Since(began); !errors.Is(err, idempotency.ErrInterrupted) || took < lease || took > 2*lease {
			t.Errorf("%v after %s, want ErrInterrupted after the lease of %s", err, took, lease)
		}
	})
}

// bubble is a process in a bubble of faked time.
func bubble(t *testing.T, client store.Store) process {
	t.Helper()
	e, err := elect.Start(context.WithoutCancel(t.Context()), elect.Config{
		Store: client, Clock: elect.GoClock(), OnStuck: func([]elect.Key) {}, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
	return process{e, idempotencystore.New(e, client)}
}

// lose has writes of requests go wrong, of one state or, empty, of all. From heal on they go well.
func lose(client *memory.Store, how memory.Fault, of idempotency.State) (heal func()) {
	client.Fault(func(c memory.Call) memory.Verdict {
		for _, change := range c.Changes {
			if change.Doc.Kind == driver.KindRequest && (of == "" || change.Doc.State == string(of)) {
				return memory.Verdict{Fault: how}
			}
		}
		return memory.Verdict{}
	})
	return func() {
		client.Fault(nil)
		time.Sleep(time.Second)
	}
}

// A claim that is not answered in time is taken back once the store answers, although the process lives on.
func TestAClaimWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New()
		g := bubble(t, client).guard(t, idempotency.Config{})
		other := bubble(t, client.Client()).guard(t, idempotency.Config{})
		heal := lose(client, memory.LoseAnswer, "")
		if _, err := g.Do(t.Context(), request, never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Fatalf("without an answer: %v, want ErrUnavailable", err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := other.Do(t.Context(), request, never(t)); !errors.Is(err, idempotency.ErrInProgress) {
			t.Errorf("meanwhile: %v, want ErrInProgress", err)
		}
		heal()
		got, err := other.Do(t.Context(), request, func(ctx context.Context) (idempotency.Reply, error) {
			if a := idempotency.AttemptFrom(ctx); a.Number != 1 {
				t.Errorf("attempt %+v, want the first", a)
			}
			return idempotency.Reply{}, nil
		})
		if err != nil || got.Replayed {
			t.Errorf("afterwards: %+v, %v, want the work to be done", got, err)
		}
	})
}

// The next attempt gets the failure before it.
func TestALaterClaimWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New()
		g := bubble(t, client).guard(t, idempotency.Config{Recover: true})
		other := bubble(t, client.Client()).guard(t, idempotency.Config{Recover: true})
		broken := errors.New("broken")
		fails := func(context.Context) (idempotency.Reply, error) { return idempotency.Reply{}, broken }
		if _, err := other.Do(t.Context(), request, fails); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		heal := lose(client, memory.LoseAnswer, "")
		if _, err := g.Do(t.Context(), request, never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Fatalf("without an answer: %v, want ErrUnavailable", err)
		}
		heal()
		_, err := other.Do(t.Context(), request, func(ctx context.Context) (idempotency.Reply, error) {
			if a := idempotency.AttemptFrom(ctx); a.Number != 3 || a.Before != idempotency.Failed {
				t.Errorf("attempt %+v, want the third, after a failure", a)
			}
			return idempotency.Reply{}, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A reply whose write is not answered in time is kept once the store answers.
func TestAReplyWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New()
		g := bubble(t, client).guard(t, idempotency.Config{})
		heal := lose(client, memory.LoseRequest, idempotency.Done)
		_, err := g.Do(t.Context(), request, func(context.Context) (idempotency.Reply, error) {
			return idempotency.Reply{Body: []byte("x")}, nil
		})
		if !errors.Is(err, idempotency.ErrNotKept) {
			t.Fatalf("without an answer: %v, want ErrNotKept", err)
		}
		heal()
		if got, err := g.Do(t.Context(), request, never(t)); err != nil || string(got.Body) != "x" {
			t.Errorf("afterwards: %q, %v, want the reply", got.Body, err)
		}
	})
}

// lossy loses the answers of every second write of a request, after it has happened or before.
type lossy struct {
	store.Store
	writes int
}

func (l *lossy) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if changes[0].Doc.Kind != driver.KindRequest {
		return l.Store.Apply(ctx, changes...)
	}
	l.writes++
	switch l.writes % 4 {
	case 1:
		return driver.AllUnknown(1, errors.New("lost on its way")), nil
	case 3:
		if _, err := l.Store.Apply(ctx, changes...); err != nil {
			return nil, err
		}
		return driver.AllUnknown(1, errors.New("the answer was lost")), nil
	}
	return l.Store.Apply(ctx, changes...)
}

// A write that is not answered is repeated until it is known how it ended.
func TestLostAnswers(t *testing.T) {
	db := memory.New()
	p := start(t, db)
	records := idempotencystore.New(p.elector, &lossy{Store: db})
	g, err := idempotency.New(idempotency.Config{Records: records})
	if err != nil {
		t.Fatal(err)
	}
	for id := range strings.SplitSeq("abcdef", "") {
		calls := 0
		for range 2 {
			_, err := g.Do(bounded(t), idempotency.Request{ID: id}, func(context.Context) (idempotency.Reply, error) {
				calls++
				return idempotency.Reply{}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if calls != 1 {
			t.Errorf("%s: %d calls, want one", id, calls)
		}
	}
}
