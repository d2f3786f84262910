package status

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
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

// TestWire holds that whatever is written, compressed before or not, with flushes anywhere, is read back.
func TestWire(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var zipped, plain, want bytes.Buffer
		wires := []wire{newGzipWire(&zipped), plainWire{&plain}}
		each := func(do func(w wire) error) {
			for _, w := range wires {
				if err := do(w); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range random.IntN(8) {
			part := make([]byte, random.IntN(200_000))
			for i := range part {
				part[i] = "abcdefgh"[random.IntN(8)]
			}
			if random.IntN(2) == 0 {
				want.Write(part)
				each(func(w wire) error { return w.text(part) })
			} else {
				p, err := pack("", func(b *body) { b.text(string(part)) })
				if err != nil {
					t.Fatal(err)
				}
				want.Write(part)
				each(func(w wire) error { return w.packed(p) })
			}
			if random.IntN(2) == 0 {
				each(wire.flush)
			}
		}
		each(wire.end)
		if !bytes.Equal(plain.Bytes(), want.Bytes()) {
			t.Fatalf("plain: %d bytes of %d", plain.Len(), want.Len())
		}
		r, err := gzip.NewReader(&zipped)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want.Bytes()) { // checks length and sum
			t.Fatalf("%d bytes of %d: %v", len(got), want.Len(), err)
		}
	}
}

// TestJoinedCRC compares with the sum of the whole text.
func TestJoinedCRC(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		text := make([]byte, random.IntN(5000))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		first := text[:random.IntN(len(text)+1)]
		second := text[len(first):]
		got := joinedCRC(crc32.ChecksumIEEE(first), crc32.ChecksumIEEE(second), int64(len(second)))
		if want := crc32.ChecksumIEEE(text); got != want {
			t.Fatalf("%d and %d bytes: %08x, want %08x", len(first), len(second), got, want)
		}
	}
}
