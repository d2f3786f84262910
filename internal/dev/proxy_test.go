package dev

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func backend(t *testing.T, h http.HandlerFunc) (address string, stop func()) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), server.Close
}

func says(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name+" "+r.Method+" "+r.URL.String())
	}
}

func ask(t *testing.T, method, url, body string) (code int, text string, header http.Header) {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all), resp.Header
}

func TestProxyGoesToALiveReplica(t *testing.T) {
	one, stopOne := backend(t, says("one"))
	two, stopTwo := backend(t, says("two"))
	proxy := httptest.NewServer(newProxy(func() []string { return []string{one, two} }))
	defer proxy.Close()
	expect := func(want string) {
		t.Helper()
		if code, got, _ := ask(t, "GET", proxy.URL+"/api/v1/tasks?limit=5", ""); code != 200 || got != want {
			t.Errorf("got %d %q, want %q", code, got, want)
		}
	}
	expect("one GET /api/v1/tasks?limit=5")
	stopOne()
	expect("two GET /api/v1/tasks?limit=5")
	stopTwo()
	code, text, header := ask(t, "GET", proxy.URL, "")
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "No replica answers at the moment") ||
		header.Get("Retry-After") == "" {
		t.Errorf("got %d %q %v", code, text, header)
	}
}

func TestProxyWithoutReplica(t *testing.T) {
	proxy := httptest.NewServer(newProxy(func() []string { return nil }))
	defer proxy.Close()
	if code, text, _ := ask(t, "GET", proxy.URL, ""); code != http.StatusServiceUnavailable ||
		!strings.Contains(text, "no replica runs") {
		t.Errorf("got %d %q", code, text)
	}
}

func TestProxyKeepsRefusalsAndBodies(t *testing.T) {
	one, _ := backend(
		t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not here", http.StatusNotFound) },
	)
	two, _ := backend(t, says("two"))
	proxy := httptest.NewServer(newProxy(func() []string { return []string{one, two} }))
	defer proxy.Close()
	if code, text, _ := ask(t, "GET", proxy.URL, ""); code != http.StatusNotFound || text != "not here\n" {
		t.Errorf("a refusal was taken for a dead replica: %d %q", code, text)
	}
	dead, stop := backend(t, says("dead"))
	stop()
	sent := httptest.NewServer(newProxy(func() []string { return []string{dead, two} }))
	defer sent.Close()
	if code, text, _ := ask(t, "POST", sent.URL, "body"); code != http.StatusServiceUnavailable {
		t.Errorf("a body was sent twice: %d %q", code, text)
	}
}

// A replica sees under which name it was asked, and from which page.
func TestProxyKeepsHostAndOrigin(t *testing.T) {
	one, _ := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.Header.Get("Origin"))
	})
	proxy := httptest.NewServer(newProxy(func() []string { return []string{one} }))
	defer proxy.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	req.Header.Set("Origin", "http://evil.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "evil.example http://evil.example" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestProxyPassesEventsOnAtOnce(t *testing.T) {
	more := make(chan struct{})
	one, _ := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: snapshot\n")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "event: upsert\n")
	})
	proxy := httptest.NewServer(newProxy(func() []string { return []string{one} }))
	defer proxy.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "event: snapshot" { // would wait for ever if it were held back
		t.Errorf("got %q", lines.Text())
	}
	close(more)
	if !lines.Scan() || lines.Text() != "event: upsert" {
		t.Errorf("got %q", lines.Text())
	}
}
