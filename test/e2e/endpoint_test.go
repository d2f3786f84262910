//go:build linux

package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
)

// call is one request that an HTTP endpoint got.
type call struct {
	Method, Path string
	Header       http.Header
	Body         string
	At           time.Time
}

// Event is start, renew, stop or tick.
func (c call) Event() string { return c.Header.Get("Shardctl-Event") }

// Token is the fencing token, 0 when there is none.
func (c call) Token() int64 {
	token, err := strconv.ParseInt(c.Header.Get("Shardctl-Fencing-Token"), 10, 64)
	if err != nil {
		return 0
	}
	return token
}

// Until is the last moment at which the HTTP endpoint may work for this call.
func (c call) Until() time.Time {
	seconds, err := strconv.ParseFloat(c.Header.Get("Shardctl-Valid-For"), 64)
	if err != nil {
		return time.Time{}
	}
	return c.At.Add(time.Duration(seconds * float64(time.Second)))
}

// endpoint is a service that tasks call. It answers 204, or what answer says.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	answer func(call) int
}

func newEndpoint() *endpoint {
	f := &endpoint{}
	f.Server = httptest.NewServer(f)
	DeferCleanup(f.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c := call{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: string(body), At: time.Now()}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	answer := f.answer
	f.mu.Unlock()
	code := http.StatusNoContent
	if answer != nil {
		code = answer(c)
	}
	w.WriteHeader(code)
}

// of are the calls for a key, in order.
func (f *endpoint) of(key string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(c call) bool { return c.Header.Get("Shardctl-Key") != key })
}

// events are those of the calls for a key, in order.
func (f *endpoint) events(key string) []string {
	var events []string
	for _, c := range f.of(key) {
		events = append(events, c.Event())
	}
	return events
}

// answering changes what it answers from now on.
func (f *endpoint) answering(answer func(call) int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}
