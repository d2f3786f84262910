package admin_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/web"
)

// pipes is a listener whose connections are made in memory, so that time-outs take no time.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8081} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accepted <- server
	return client
}

// slow is a client that sends a text byte by byte, one a second, and notes when it is cut off.
func slow(c net.Conn, text string) (ended chan time.Duration) {
	ended = make(chan time.Duration, 1)
	begin := time.Now()
	sent := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, c) // whatever is answered
		after := time.Since(begin)
		_ = c.Close()
		<-sent
		ended <- after
	}()
	go func() {
		defer close(sent)
		for i := range len(text) {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	return ended
}

// Clients that send their request byte by byte, to either listener, hold up no one, change nothing, and are cut off.
func TestSlowClientsAreCutOff(t *testing.T) {
	const (
		drain = "POST /api/v1/instances/a/drain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		read  = "GET /api/v1/tasks?watch=true HTTP/1.1\r\nHost: localhost\r\n"
	)
	for name, test := range map[string]struct {
		of   func(*listener) http.Handler
		next string // a request beside the slow ones
		code int
		made int // changes by then
	}{
		"admin.listen": {
			func(l *listener) http.Handler { return l.handler }, drain + "Content-Length: 2\r\n\r\n{}",
			http.StatusAccepted, 1,
		},
		"server.listen": {
			func(l *listener) http.Handler { return l.reader },
			"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n", http.StatusOK, 0,
		},
	} {
		l := serve(t, false)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				listener := newPipes()
				served := make(chan error, 1)
				go func() {
					served <- web.Serve(ctx, listener, test.of(l), web.ServerConnections(), time.Second, logr.Discard())
				}()
				var heads, bodies []chan time.Duration
				for range 20 {
					for _, head := range []string{drain, read} {
						heads = append(heads, slow(listener.dial(), head+"X-More: "+strings.Repeat("x", 100)))
					}
					// a whole head, and then a body that never ends
					for _, start := range []string{"Content-Length: 1000\r\n\r\n", "Transfer-Encoding: " +
						"chunked\r\n\r\n3e8\r\n"} {
						c := listener.dial()
						if _, err := io.WriteString(c, drain+start); err != nil {
							t.Fatal(err)
						}
						bodies = append(bodies, slow(c, `{"reason":"`+strings.Repeat("x", 1000)))
					}
				}
				c := listener.dial()
				begin := time.Now()
				if code := asked(t, c, test.next); code != test.code || time.Since(begin) > time.Second {
					t.Errorf("next to slow clients: %d after %v", code, time.Since(begin))
				}
				_ = c.Close()
				for i, ended := range append(heads, bodies...) {
					most := 10 * time.Second
					if i >= len(heads) {
						most *= 2
					}
					if after := <-ended; after > most {
						t.Errorf("client %d is cut off after %v, want %v at most", i, after, most)
					}
				}
				if made := l.changer.requests(); len(made) != test.made {
					t.Errorf("%+v was asked for", made)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// asked is the status of the answer to a request.
func asked(t *testing.T, c net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// Heads and bodies that are too large are refused on both listeners before anything is done about them. Nothing of the
// cluster is shown, nothing changes, and others are answered.
func TestLargeRequestsAreRefused(t *testing.T) {
	large := strings.Repeat("x", 100<<10)
	const drain = "/api/v1/instances/a/drain"
	bodies := map[string]string{
		"a body": `{"reason": "` + large + `"}`, "many megabytes": `{"reason": "` + strings.Repeat(large, 100) + `"}`,
	}
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		admin, reads             int
	}{
		{"a query", "GET", "/api/v1/tasks?q=" + large, "", nil, 431, 431},
		{"a query that fits into the head", "GET", "/api/v1/tasks?watch=true&q=" + large[:20<<10], "", nil, 400, 400},
		{"a query of a watch", "GET", "/api/v1/tasks?watch=true&q=" + large, "", nil, 431, 431},
		{"a query of many parts", "GET", "/api/v1/events?" + strings.Repeat("group=a&", 12<<10), "", nil, 431, 431},
		{"a query of a change", "POST", drain + "?q=" + large, "{}", nil, 431, 431},
		{"a path", "GET", "/" + large, "", nil, 431, 431},
		{"a header", "GET", "/api/v1/status", "", []string{"X-More", large}, 431, 431},
		{"a token", "GET", "/api/v1/status", "", []string{"Authorization", "Bearer " + large}, 431, 431},
		{"a header of a change", "POST", drain, "{}", []string{"X-More", large}, 431, 431},
		{"a body", "POST", drain, bodies["a body"], nil, 413, 405},
		{"many megabytes", "POST", drain, bodies["many megabytes"], nil, 413, 405},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a refused connection is closed a moment later
			l := serve(t, false)
			for _, of := range []struct {
				handler http.Handler
				want    int
			}{{l.handler, test.admin}, {l.reader, test.reads}} {
				url, stop := served(t, of.handler)
				code, body, err := send(t, url, test.method, test.path, test.body, test.headers)
				// The answer may come while the body is still sent, and the connection be closed: that is refused, too.
				if err == nil && (code != of.want || len(body) > 1000 || strings.Contains(body, "topic-")) ||
					err != nil && test.body == "" {
					t.Errorf("%d, want %d: %.200s %v", code, of.want, body, err)
				}
				if code, _, err := send(t, url, "GET", "/livez", "", nil); code != http.StatusOK {
					t.Errorf("afterwards: %d %v", code, err)
				}
				stop()
			}
			if made := l.changer.requests(); len(made) > 0 {
				t.Errorf("%+v was asked for", made)
			}
		})
	}
}

// served is a listener as a replica has it.
func served(t *testing.T, handler http.Handler) (url string, stop func()) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- web.Serve(ctx, listener, handler, web.ServerConnections(), time.Second, logr.Discard())
	}()
	return "http://" + listener.Addr().String(), func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// send asks once, on a connection of its own.
func send(t *testing.T, url, method, path, body string, headers []string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}
