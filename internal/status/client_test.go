package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

func clientOf(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/", client.WithHTTPClient(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientReadsAllPages(t *testing.T) {
	const n = api.MaxLimit + 7
	store := &eventStore{}
	store.add("1", "2", "3")
	c := clientOf(t, New(Config{Source: boardWith(sample(n)), Events: store}))
	ctx := t.Context()
	tasks, err := c.Tasks().List(ctx, client.Filter{})
	if err != nil || len(tasks) != n {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if tasks, err = c.Tasks().List(ctx, client.Filter{Limit: api.MaxLimit + 2}); err != nil ||
		len(tasks) != api.MaxLimit+2 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if tasks, err = c.Tasks().List(
		ctx, client.Filter{Instance: "b", State: "running", Selector: "team=core", Group: "topics", Q: "0004"},
	); err != nil || len(tasks) != 1 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if events, err := c.Events().List(ctx, client.Filter{Limit: 2}); err != nil || len(events) != 2 ||
		events[0].ID != "3" {
		t.Errorf("%v, %v", events, err)
	}
	if events, err := c.Events().List(ctx, client.Filter{Since: epoch.Add(1)}); err != nil || len(events) != 0 {
		t.Errorf("%v, %v", events, err)
	}
	if s, err := c.Status(ctx); err != nil || s.Groups[0].Tasks != n {
		t.Errorf("%+v, %v", s, err)
	}
	if task, err := c.Tasks().Get(ctx, "topics", "topic-0001"); err != nil || task.Instance != "b" ||
		!task.OwnedSince.Equal(epoch) {
		t.Errorf("%+v, %v", task, err)
	}
	if groups, err := c.Groups().List(ctx, client.Filter{}); err != nil || len(groups) != 1 {
		t.Errorf("%v, %v", groups, err)
	}
	if instances, err := c.Instances().List(ctx, client.Filter{}); err != nil || len(instances) != 3 {
		t.Errorf("%v, %v", instances, err)
	}
	if locks, err := c.Locks().List(ctx, client.Filter{Instance: "a"}); err != nil || len(locks) == 0 {
		t.Errorf("%v, %v", locks, err)
	}
	if err := c.Livez(ctx); err != nil {
		t.Error(err)
	}
}

func TestClientRepeatsWhatTheServerSaid(t *testing.T) {
	c := clientOf(t, New(Config{Source: boardWith(sample(1))}))
	_, err := c.Tasks().Get(t.Context(), "topics", "none")
	var e *api.Error
	if !errors.As(err, &e) || e.Status != 404 || e.Reason != api.ReasonNotFound ||
		!strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
	proxy := clientOf(t, http.HandlerFunc(func(
		w http.ResponseWriter, _ *http.Request,
	) {
		http.Error(w, "bad gateway", http.StatusBadGateway)
	}))
	if _, err := proxy.Status(t.Context()); !errors.As(err, &e) || e.Status != 502 || err.Error() != "bad gateway" {
		t.Errorf("got %v", err)
	}
	page := clientOf(
		t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }),
	)
	if _, err := page.Status(t.Context()); err == nil {
		t.Error("a page was taken for a status")
	}
}

func TestClientBeginsAListAgainThatGrewTooOld(t *testing.T) {
	h := New(Config{Source: boardWith(sample(api.MaxLimit + 1))})
	gone := false
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("continue") && !gone {
			gone = true
			web.NewError(http.StatusGone, api.ReasonExpired, "too old").Write(w)
			return
		}
		h.ServeHTTP(w, r)
	}))
	tasks, err := c.Tasks().List(t.Context(), client.Filter{})
	if err != nil || len(tasks) != api.MaxLimit+1 || !gone {
		t.Errorf("%d tasks, %v, gone %v", len(tasks), err, gone)
	}
}

func TestClientWatches(t *testing.T) {
	board := boardWith(sample(3))
	store := &eventStore{}
	store.add("1", "2")
	c := clientOf(t, New(Config{Source: board, Events: store}))
	errEnough := errors.New("enough")
	seen := 0
	err := c.WatchStatus(t.Context(), client.WatchOptions{}, func(s *api.Status) error {
		if seen++; seen == 2 {
			if s.Groups[0].Running != 7 {
				t.Errorf("got %+v", s.Groups[0])
			}
			return errEnough
		}
		next := clone(t, board.Snapshot())
		next.Status.Groups[0].Running = 7
		board.Publish(next)
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	err = c.Events().Watch(t.Context(), client.WatchOptions{After: "1"}, func(change client.Change[api.Event]) error {
		if change.Kind != client.Upsert || change.ID != "2" || change.Items[0].ID != "2" {
			t.Errorf("got %+v", change)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err = c.Instances().Watch(
		ctx, client.WatchOptions{}, func(client.Change[api.Instance]) error { cancel(errEnough); return nil },
	)
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	err = c.Locks().Watch(t.Context(), client.WatchOptions{}, func(change client.Change[api.Lock]) error {
		if len(change.Items) != 3 {
			t.Errorf("got %+v", change)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	err = c.Groups().Watch(
		t.Context(), client.WatchOptions{}, func(client.Change[api.Group]) error { return errEnough },
	)
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
}
