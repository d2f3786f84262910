package replica

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/viewtest"
)

// unreachable is a store that may be away.
type unreachable struct {
	store.Store

	away atomic.Bool
}

func (u *unreachable) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if u.away.Load() {
		return driver.Reply{}, store.ErrUnavailable
	}
	return u.Store.Read(ctx, kind, ids...)
}

func (u *unreachable) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if u.away.Load() {
		return driver.Reply{}, store.ErrUnavailable
	}
	return u.Store.List(ctx, kind, q)
}

func (u *unreachable) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if u.away.Load() {
		return nil, store.ErrUnavailable
	}
	return u.Store.Apply(ctx, changes...)
}

// livezOf is what /livez answers.
func livezOf(t *testing.T, r *Replica) *httptest.ResponseRecorder {
	t.Helper()
	h := status.New(status.Config{Source: r.Board(), Live: r.Live, Logger: logr.Discard()})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", http.NoBody))
	return w
}

// The elector's loop stands still where it writes to a log that takes nothing.
func TestLivezFailsWhereTheElectorStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		log := funcr.New(func(_, args string) {
			if strings.Contains(args, `"msg"="Claimed"`) {
				<-until
			}
		}, funcr.Options{})
		r := New(Config{
			Settings: viewtest.Load(t, calm), Metrics: metrics.New(false), Logger: log, Clock: elect.GoClock(),
		})
		r.loops.silence = 3 * publishIdle
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, memory.New()) }()
		await(t, "/livez fails", func() bool {
			w := livezOf(t, r)
			return w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), "the loop of "+loopPublish)
		})
		close(until)
		await(t, "/livez is well", func() bool { return livezOf(t, r).Code == http.StatusOK })
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A replica is alive while it waits for the store, takes part, has lost the store, drains and has ended. It is not
// alive once it reconciles no more, here since that writes to a log that takes nothing.
func TestLivezFailsOnlyWhereALoopStandsStill(t *testing.T) {
	for name, c := range map[string]struct {
		blocks, stuck string
		away          bool
	}{
		"nothing":                    {},
		"no loop, the store is away": {away: true},
		"reconciliation":             {blocks: "Claiming keys", stuck: loopReconcile},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := make(chan struct{})
				log := funcr.New(func(_, args string) {
					if c.blocks != "" && strings.Contains(args, c.blocks) {
						<-until
					}
				}, funcr.Options{Verbosity: 1})
				db := &unreachable{Store: memory.New()}
				r := New(Config{
					Settings: viewtest.Load(t, calm), Metrics: metrics.New(false), Logger: log,
					Clock: elect.GoClock(),
				})
				livez := func(when string, want int, says string) {
					t.Helper()
					synctest.Wait()
					if w := livezOf(t, r); w.Code != want || !strings.Contains(w.Body.String(), says) {
						t.Errorf("%s: %d %s, want %d %s", when, w.Code, w.Body, want, says)
					}
				}
				time.Sleep(time.Hour)
				livez("waiting for the store", http.StatusOK, "ok")
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx, db) }()
				time.Sleep(10 * time.Second)
				livez("taking part", http.StatusOK, "ok")
				time.Sleep(time.Minute) // keys are claimed
				db.away.Store(c.away)
				time.Sleep(time.Minute)
				want, says := http.StatusOK, "ok"
				if c.stuck != "" {
					want, says = http.StatusServiceUnavailable, "not alive: the loop of "+c.stuck
				}
				livez("a minute later", want, says)
				close(until)
				db.away.Store(false)
				time.Sleep(time.Minute)
				livez("going on", http.StatusOK, "ok")
				if err := r.Drain(ctx); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Minute)
				livez("drained", http.StatusOK, "ok")
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Minute)
				livez("ended", http.StatusOK, "ok")
			})
		})
	}
}
