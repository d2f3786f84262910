package status

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/snapshot/snapshottest"
	"github.com/shardctl/shardctl/pkg/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is when everything in the tests happens.
var epoch = snapshottest.Epoch

// sample is a cluster of n tasks of the group topics on a, b and c, in turn; the last one has no owner.
func sample(n int) *snapshot.Cluster { return snapshottest.Cluster(n) }

// clone copies a snapshot so that it can be changed and published as the next one.
func clone(t *testing.T, s *snapshot.Cluster) *snapshot.Cluster {
	t.Helper()
	return snapshottest.Clone(t, s)
}

func boardWith(s *snapshot.Cluster) *snapshot.Board { return snapshottest.Board(s) }

// granting has every request come with this access.
func granting(h http.Handler, a Access) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, a.Grant(r)) })
}

// get asks the handler and returns what it answered.
func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

// tape is a response that a test reads while it is written.
type tape struct {
	mu     sync.Mutex
	header http.Header
	text   strings.Builder
}

func newTape() *tape { return &tape{header: http.Header{}} }

func (t *tape) Header() http.Header { return t.header }

func (t *tape) WriteHeader(int) {}

func (t *tape) Flush() {}

func (t *tape) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// take returns what was written since the last time.
func (t *tape) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.text.Reset()
	return t.text.String()
}

// watching runs a watch under synctest and ends it after the test's body.
func watching(t *testing.T, h http.Handler, path, lastID string, body func(out *tape)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := newTape(), make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	go func() {
		defer close(done)
		h.ServeHTTP(out, r)
	}()
	synctest.Wait()
	body(out)
	cancel()
	<-done
}

// kinds are the events in a text, each with the first 40 letters of its data.
func kinds(text string) []string {
	var list []string
	_ = readStream(strings.NewReader(text), func(kind, _ string, data []byte) error {
		list = append(list, kind+" "+string(data[:min(40, len(data))]))
		return nil
	})
	return list
}

func expect(t *testing.T, text string, want ...string) {
	t.Helper()
	got := kinds(text)
	ok := len(got) == len(want)
	for i := range got {
		ok = ok && i < len(want) && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// readStream reads server-sent events: lines of data are joined.
func readStream(r io.Reader, handle func(kind, id string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	var kind, id string
	var data []byte // large lists have a line for each item
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			kind = string(value)
		case "id":
			id = string(value)
		case "data":
			data = append(data, value...)
		case "":
			if len(lines.Bytes()) > 0 || len(data) == 0 {
				continue // a comment, or nothing to handle
			}
			if err := handle(kind, id, data); err != nil {
				return err
			}
			kind, data = "", nil
		}
	}
	return lines.Err()
}

// eventStore holds events in order of id, as the store does.
type eventStore struct {
	mu     sync.Mutex
	events []api.Event
	err    error
	asked  int // questions

	changed chan struct{} // nil: new events are not reported
}

// report says that there are new events.
func (s *eventStore) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *eventStore) add(ids ...string) {
	for _, id := range ids {
		s.put(api.Event{ID: id, Time: api.Time{Time: epoch}, Type: "Moved", Key: "topics/" + id, To: "a"})
	}
}

func (s *eventStore) put(events ...api.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, events...)
	slices.SortFunc(s.events, func(a, b api.Event) int { return strings.Compare(a.ID, b.ID) })
}

// fail lets every reading fail from now on, or succeed again with nil.
func (s *eventStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *eventStore) EventsChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed // nil: not known
}

func (s *eventStore) Events(_ context.Context, q snapshot.EventQuery) ([]api.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	var found []api.Event
	for _, e := range s.events {
		if e.ID >= q.From && (q.To == "" || e.ID < q.To) && (q.Group == "" || groupOf(e.Key) == q.Group) &&
			!e.Time.Before(q.Since) {
			found = append(found, e)
		}
	}
	if !q.OldestFirst {
		slices.Reverse(found)
	}
	return found[:min(len(found), q.Limit)], nil
}
