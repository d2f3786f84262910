package idempotencytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// during calls Do, and while the work goes on then. The work ends when then has returned.
func during(t *testing.T, g *idempotency.Guard, r idempotency.Request, then func()) {
	t.Helper()
	ctx := bounded(t)
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := g.Do(ctx, r, func(context.Context) (idempotency.Reply, error) {
			close(begun)
			<-end
			return idempotency.Reply{Body: []byte("x")}, nil
		})
		ended <- err
	}()
	select {
	case <-begun:
		then()
	case err := <-ended:
		t.Fatal("the work was not called: ", err)
	}
	close(end)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func testTold(b bench) {
	t := b.t
	if !b.NoWait {
		t.Skip("a repetition waits in any case")
	}
	opened := b.Open(t)
	r := idempotency.Request{ID: "a"}
	during(t, guard(t, opened(idempotency.Config{})), r, func() {
		_, err := guard(t, opened(idempotency.Config{Recover: true})).Do(bounded(t), r, never(t))
		if !errors.Is(err, idempotency.ErrInProgress) {
			t.Errorf("%v, want ErrInProgress", err)
		}
	})
}

func testWaits(b bench) {
	t := b.t
	opened := b.Open(t)
	r := idempotency.Request{ID: "a"}
	g := guard(t, opened(idempotency.Config{Wait: true}))
	got := make(chan error, 1)
	during(t, g, r, func() {
		go func() {
			kept, err := g.Do(bounded(t), r, never(t))
			if err == nil && (!kept.Replayed || string(kept.Body) != "x") {
				err = errors.New("not the reply that is kept")
			}
			got <- err
		}()
		short, cancel := context.WithTimeout(bounded(t), 200*time.Millisecond)
		defer cancel()
		if _, err := g.Do(short, r, never(t)); err == nil {
			t.Error("no error although the context had ended")
		}
	})
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// testVersions is about records by themselves.
func testVersions(b bench) {
	if b.Transactional {
		return // one transaction sees its own writes; those of others are in testMany
	}
	t := b.t
	ctx, s := bounded(t), b.Open(t)(idempotency.Config{}).Records
	rec := &idempotency.Record{ID: "a", State: idempotency.Done, Claim: "c", Attempt: 1}
	put := func(over int64, r *idempotency.Record) idempotency.Answer {
		t.Helper()
		answer, err := s.Write(ctx, idempotency.Write{ID: "a", Over: over, Record: r, Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	first := put(0, rec)
	if !first.Applied {
		t.Fatalf("create: %+v", first)
	}
	if again := put(0, rec); again.Applied || again.Found.Version != first.Version {
		t.Fatalf("create again: %+v, want what is there", again)
	}
	second := put(first.Version, rec)
	if !second.Applied || second.Version <= first.Version {
		t.Fatalf("write over: %+v after %+v", second, first)
	}
	for _, r := range []*idempotency.Record{rec, nil} {
		if late := put(first.Version, r); late.Applied || late.Found.Version != second.Version {
			t.Fatalf("write over what is gone: %+v", late)
		}
	}
	if gone := put(second.Version, nil); !gone.Applied {
		t.Fatalf("remove: %+v", gone)
	}
	found, err := s.Read(ctx, "a")
	if err != nil || found.Version != 0 && !found.Expired {
		t.Fatalf("read what was removed: %+v, %v, want nothing, or what has expired", found, err)
	}
	if third := put(found.Version, rec); !third.Applied || third.Version <= second.Version {
		t.Fatalf("create once more: %+v, want a version above %d", third, second.Version)
	}
}
