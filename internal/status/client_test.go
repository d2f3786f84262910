package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func clientOf(t *testing.T, h http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &Client{BaseURL: server.URL + "/", HTTP: server.Client()}
}

func TestClientReadsAllPages(t *testing.T) {
	const n = MaxLimit + 7
	store := &eventStore{}
	store.add("1", "2", "3")
	c := clientOf(t, New(Config{Source: boardWith(sample(n)), Events: store}))
	ctx := t.Context()
	tasks, err := c.Tasks(ctx, Filter{})
	if err != nil || len(tasks) != n {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if tasks, err = c.Tasks(ctx, Filter{Limit: MaxLimit + 2}); err != nil || len(tasks) != MaxLimit+2 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if tasks, err = c.Tasks(
		ctx, Filter{Instance: "b", State: "running", Selector: "team=core", Group: "topics", Q: "0004"},
	); err != nil || len(tasks) != 1 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if events, err := c.Events(ctx, Filter{Limit: 2}); err != nil || len(events) != 2 || events[0].ID != "3" {
		t.Errorf("%v, %v", events, err)
	}
	if events, err := c.Events(ctx, Filter{Since: epoch.Add(1)}); err != nil || len(events) != 0 {
		t.Errorf("%v, %v", events, err)
	}
	if s, err := c.Status(ctx); err != nil || s.Groups[0].Tasks != n {
		t.Errorf("%+v, %v", s, err)
	}
	if task, err := c.Task(ctx, "topics", "topic-0001"); err != nil || task.Instance != "b" ||
		!task.OwnedSince.Equal(epoch) {
		t.Errorf("%+v, %v", task, err)
	}
	if groups, err := c.Groups(ctx, Filter{}); err != nil || len(groups) != 1 {
		t.Errorf("%v, %v", groups, err)
	}
	if instances, err := c.Instances(ctx, Filter{}); err != nil || len(instances) != 3 {
		t.Errorf("%v, %v", instances, err)
	}
	if locks, err := c.Locks(ctx, Filter{Instance: "a"}); err != nil || len(locks) == 0 {
		t.Errorf("%v, %v", locks, err)
	}
	if err := c.Livez(ctx); err != nil {
		t.Error(err)
	}
}

func TestClientRepeatsWhatTheServerSaid(t *testing.T) {
	c := clientOf(t, New(Config{Source: boardWith(sample(1))}))
	_, err := c.Task(t.Context(), "topics", "none")
	var e *Error
	if !errors.As(err, &e) || e.Status != 404 || e.Reason != ReasonNotFound || !strings.Contains(err.Error(), "none") {
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
	h := New(Config{Source: boardWith(sample(MaxLimit + 1))})
	gone := false
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("continue") && !gone {
			gone = true
			problem(http.StatusGone, ReasonExpired, "too old").write(w)
			return
		}
		h.ServeHTTP(w, r)
	}))
	tasks, err := c.Tasks(t.Context(), Filter{})
	if err != nil || len(tasks) != MaxLimit+1 || !gone {
		t.Errorf("%d tasks, %v, gone %v", len(tasks), err, gone)
	}
}

func TestClientSendsItsToken(t *testing.T) {
	var got string
	c := clientOf(
		t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }),
	)
	c.Token = "secret"
	if err := c.Livez(t.Context()); err != nil || got != "Bearer secret" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClientWatches(t *testing.T) {
	board := boardWith(sample(3))
	store := &eventStore{}
	store.add("1", "2")
	c := clientOf(t, New(Config{Source: board, Events: store}))
	errEnough := errors.New("enough")
	seen := 0
	err := c.WatchStatus(t.Context(), func(s *Status) error {
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
	err = c.WatchEvents(t.Context(), Filter{}, "1", func(change Change[Event]) error {
		if change.Kind != ChangeUpsert || change.ID != "2" || change.Items[0].ID != "2" {
			t.Errorf("got %+v", change)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err = c.WatchInstances(ctx, Filter{}, func(Change[Instance]) error { cancel(errEnough); return nil })
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	err = c.WatchLocks(t.Context(), Filter{}, func(change Change[Lock]) error {
		if len(change.Items) != 3 {
			t.Errorf("got %+v", change)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	err = c.WatchGroups(t.Context(), Filter{}, func(Change[Group]) error { return errEnough })
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
}
