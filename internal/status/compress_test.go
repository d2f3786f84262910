package status

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// answerTo is the answer to a request with a header.
func answerTo(t *testing.T, h http.Handler, path, name, value string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set(name, value)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswersAreCompressed(t *testing.T) {
	h := New(Config{Source: boardWith(sample(2000))})
	// Whole lists: a token to go on has the time.
	for _, path := range []string{
		"/api/v1/tasks?limit=2000", "/api/v1/status", "/openapi.json", "/", "/?view=plain&limit=2000",
	} {
		plain := get(t, h, path)
		zipped := answerTo(t, h, path, "Accept-Encoding", "br, gzip;q=0.5")
		if zipped.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", path, zipped.Header())
			continue
		}
		r, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r) // checks length and sum
		if err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
			t.Errorf("%s: %v, %d bytes of %d", path, err, len(text), plain.Body.Len())
		}
	}
	for _, accept := range []string{"", "br", "gzip;q=0", "identity, *;q=0"} {
		if w := answerTo(t, h, "/api/v1/tasks", "Accept-Encoding", accept); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%q: %v", accept, w.Header())
		}
	}
}

// TestSnapshotsOfWatchesAreSmall holds that a watch of ten thousand tasks begins with less than 500 kB, and that
// changes arrive at once.
func TestSnapshotsOfWatchesAreSmall(t *testing.T) {
	const n = 10_000
	s := sample(n)
	for i := range s.Tasks.All() { // as after some months: each at another time, for another reason
		at := epoch.Add(time.Duration(i*7919%n) * 1009 * time.Millisecond)
		s.Tasks.All()[i].OwnedSince = api.Time{Time: at}
		s.Tasks.All()[i].StateSince = api.Time{Time: at.Add(17 * time.Millisecond)}
		s.Tasks.All()[i].FencingToken = at.UnixMilli()
		s.Tasks.All()[i].Reason, s.Tasks.All()[i].Message = "Orphaned", fmt.Sprintf(
			"%c died: no heartbeat for %d s", 'a'+i%3, 20+i%7,
		)
	}
	board := boardWith(s)
	ctx, stop := context.WithCancel(t.Context())
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(ctx, listener, New(Config{Source: board}), web.ServerConnections(), time.Second, logr.Discard())
	}()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + listener.Addr().String() + "/api/v1/tasks?watch=true"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip") // so that the transport does not undo it
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	wire := &counting{r: resp.Body}
	unzipped, err := gzip.NewReader(wire)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(unzipped, 1<<20)
	next := func(kind, key string) {
		t.Helper()
		var event strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%v after %d bytes", err, event.Len())
			}
			if event.WriteString(line); line != "\n" {
				continue
			}
			if !strings.HasPrefix(event.String(), ":") {
				break
			}
			event.Reset() // a comment, after a while in which nothing changed
		}
		text := event.String()
		if !strings.HasPrefix(text, "event: "+kind+"\n") || !strings.Contains(text, `"`+key+`"`) {
			t.Fatalf("%.200s, want %s of %s", text, kind, key)
		}
	}
	next("snapshot", s.Tasks.All()[n-1].Key)
	if wire.n > 500_000 {
		t.Errorf("%d bytes", wire.n)
	}
	t.Logf("a snapshot of %d tasks: %d bytes", n, wire.n)
	for i := range 3 {
		after := *board.Snapshot()
		after.Tasks = snapshot.Listed(slices.Clone(after.Tasks.All()))
		after.Tasks.All()[i].Message = "changed"
		board.Publish(&after)
		next("upsert", after.Tasks.All()[i].Key)
	}
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
