package application

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/viewtest"
)

func TestATokenIsNeverEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"secret\n": "secret", "": "", "\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := readToken(file); token != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, token, err)
		}
	}
}

// caller is an application that runs whatever it is assigned.
type caller struct {
	t       *testing.T
	handler http.Handler
	req     Request
	status  int
}

func (c *caller) call() {
	c.t.Helper()
	body, err := json.Marshal(&c.req)
	if err != nil {
		c.t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	c.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/sync", strings.NewReader(string(body))))
	if c.status = answer.Code; c.status != http.StatusOK {
		return
	}
	var reply Reply
	if err := json.Unmarshal(answer.Body.Bytes(), &reply); err != nil {
		c.t.Fatal(err)
	}
	c.req.Session, c.req.Seq, c.req.Running = reply.Session, reply.Seq, reply.Assigned
}

// TestTheCapacityIsThatOfTheApplication: a replica takes keys for an application only while one is there and ready, and
// says so. Tasks of others it takes all the same.
func TestTheCapacityIsThatOfTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := viewtest.Load(t, `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
lease: {duration: 20s}
app: {listen: unix:/run/app.sock}
groups:
  - {name: mine, tasks: [{name: one, assign: {}}]}
  - {name: mixed, tasks: [{name: sleep, every: 24h, exec: {command: [date]}}]}
`)
		r := replica.New(replica.Config{
			Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(), Clock: elect.GoClock(),
			Application: Beside,
		})
		c := &caller{t: t, handler: Handler(r)}
		c.req.App, c.req.Wait = "11111111-1111-4111-8111-111111111111", 0.2
		if c.call(); c.status != http.StatusServiceUnavailable {
			t.Errorf("before the store is reached: %d", c.status)
		}
		running(t, r, memory.New())
		until := func(what string, done func() bool, between func()) {
			t.Helper()
			for limit := time.Now().Add(time.Minute); !done(); between() {
				if time.Now().After(limit) {
					t.Fatalf("not %s: %+v", what, r.Board().Snapshot())
				}
			}
		}
		wait := func() { <-r.Board().Changed() }
		problem := func() bool {
			return slices.ContainsFunc(r.Board().Snapshot().Status.Problems, func(p api.Problem) bool {
				return p.Reason == api.ProblemNoApplication && p.Instance == "a" && strings.Contains(p.Message, "keys of mine")
			})
		}
		owner := func(key string) string { return r.Board().Snapshot().Task(key).Instance }
		capOfMine := func() (n int, there bool) {
			for _, i := range r.Board().Snapshot().Instances {
				n, there = i.Caps["mine"]
			}
			return n, there
		}
		until("shown that there is none", func() bool {
			n, there := capOfMine()
			return problem() && there && n == 0 && owner("mixed/sleep") == "a" && owner("mine/one") == ""
		}, wait)

		shown := func() *api.Application {
			for _, i := range r.Board().Snapshot().Instances {
				return i.Application
			}
			return nil
		}
		until("shown why", func() bool {
			a := shown()
			return a != nil && a.ID == "" && a.Message == "none has called at unix:/run/app.sock" && a.LastCallAgeSeconds == nil
		}, wait)
		c.req.Status = map[string]string{"lag": "7"}
		until("shown that it is not ready", func() bool {
			a := shown()
			return a.ID == c.req.App && !a.Ready && a.Message == "it says that it is not ready" && a.Status["lag"] == "7" &&
				a.LastCallAgeSeconds != nil && !a.Since.IsZero()
		}, c.call)
		// What others read of it is in the document of the member.
		until("shared", func() bool {
			m := r.Cluster().View().Sessions[0].Member.Application
			return m != nil && m.ID == c.req.App && m.Status["lag"] == "7"
		}, c.call)

		c.req.Ready = true
		until("assigned", func() bool { return len(c.req.Running) == 1 && c.req.Running[0].Key == "mine/one" }, c.call)
		until("shown that there is one", func() bool {
			_, there := capOfMine()
			a := shown()
			return !problem() && !there && owner("mine/one") == "a" && a.Ready && a.Message == ""
		}, c.call)

		c.req.Ready = false
		until("taken", func() bool { return len(c.req.Running) == 0 && owner("mine/one") == "" && problem() }, c.call)
		until("noted", func() bool {
			events, err := r.StoreSource().Events(t.Context(), snapshot.EventQuery{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			has := func(kind, reason, from, to string) bool {
				return slices.ContainsFunc(events, func(e api.Event) bool {
					return e.Type == kind && e.Reason == reason && e.From == from && e.To == to
				})
			}
			return has("ApplicationReady", "Ready", "", "a") && has("ApplicationGone", "NotReady", "a", "")
		}, wait)
	})
}

// TestReadyOnceTheApplicationTakesKeys: until then a rolling update must not go on. What becomes of it later does not
// count, and tasks of others are not kept from service for good.
func TestReadyOnceTheApplicationTakesKeys(t *testing.T) {
	const (
		mine  = `{name: mine, tasks: [{name: one, assign: {}}]}`
		other = `{name: other, tasks: [{name: sleep, every: 24h, exec: {command: [date]}}]}`
		none  = "no application has taken keys of mine since the start: none has called at unix:/run/app.sock"
		unfit = "no application has taken keys of mine since the start: it says that it is not ready"
		comes = "comes"

		longestUnready = 5 * time.Minute // of a replica that has tasks of its own, too
	)
	for name, c := range map[string]struct {
		groups string
		age    time.Duration // of the replica
		want   []string      // what /readyz says, one after the other; comes: the application is ready
	}{
		"waits as long as it takes": {mine, 2 * longestUnready, []string{none, unfit, comes, "ok"}},
		"waits":                     {mine + "," + other, 0, []string{none, unfit, comes, "ok"}},
		"has waited long enough":    {mine + "," + other, longestUnready, []string{"ok"}},
		"has nothing for it":        {other, 0, []string{"ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := viewtest.Load(t, `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
app: {listen: unix:/run/app.sock}
groups: [`+c.groups+`]
`)
				r := replica.New(replica.Config{
					Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(), Clock: elect.GoClock(),
					Application: Beside,
				})
				time.Sleep(c.age)
				running(t, r, memory.New())
				app := &caller{t: t, handler: Handler(r)}
				app.req.App, app.req.Wait = "11111111-1111-4111-8111-111111111111", 0.2
				shown := status.New(status.Showing(r, nil, logr.Discard()))
				for _, want := range c.want {
					if want == comes {
						app.req.Ready = true
						app.call()
						continue
					}
					if want == unfit {
						app.call()
					}
					said := func() string {
						answer := httptest.NewRecorder()
						shown.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
						return answer.Body.String()
					}
					for limit := time.Now().Add(time.Minute); !strings.Contains(said(), want); <-r.Board().Changed() {
						if time.Now().After(limit) {
							t.Fatalf("%s, want %s", said(), want)
						}
					}
				}
				if app.req.Ready {
					app.req.Ready = false
					if app.call(); r.Ready() != nil {
						t.Errorf("it was ready before: %v", r.Ready())
					}
				}
			})
		})
	}
}

// running runs a replica, within a bubble, until the test ends.
func running(t *testing.T, r *replica.Replica, db store.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(ctx, db) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
