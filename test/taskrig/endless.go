package taskrig

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Endless are endpoints whose answers do not end, by how. Each answers with the status, and ends with the request.
func Endless(status int) map[string]http.HandlerFunc {
	write := func(w http.ResponseWriter, text string) {
		_, _ = io.WriteString(w, text) // the client may have left
		_ = http.NewResponseController(w).Flush()
	}
	begin := func(w http.ResponseWriter, text string) {
		w.WriteHeader(status)
		write(w, text)
	}
	return map[string]http.HandlerFunc{
		"no end": func(w http.ResponseWriter, r *http.Request) {
			for begin(w, "x"); r.Context().Err() == nil; write(w, "x") {
				pause(r, 10*time.Millisecond)
			}
		},
		"no end, fast": func(w http.ResponseWriter, r *http.Request) {
			text := strings.Repeat("x", 64<<10)
			for begin(w, text); r.Context().Err() == nil; {
				write(w, text)
			}
		},
		"stops in the middle": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			begin(w, "a part")
			<-r.Context().Done()
		},
		"says nothing": func(w http.ResponseWriter, r *http.Request) {
			begin(w, "")
			<-r.Context().Done()
		},
		"more than fits": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2000000000")
			begin(w, "a part")
			<-r.Context().Done()
		},
	}
}

// pause waits, or until the request has ended.
func pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// Serve serves until the test ends, in which the requests have ended.
func Serve(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}
