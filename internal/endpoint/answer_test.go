package endpoint

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/taskrig"
)

// Answers that do not end are read no further, whichever protocol they come by.
func TestAnswersThatDoNotEnd(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for name, handler := range taskrig.Endless(http.StatusOK) {
			t.Run(protocol+" "+name, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewUnstartedServer(handler)
				server.EnableHTTP2 = protocol == "HTTP/2.0"
				server.StartTLS()
				defer server.Close()
				defer server.CloseClientConnections()
				for _, read := range []func(*http.Response, context.CancelFunc){
					Drain, func(r *http.Response, cancel context.CancelFunc) {
						if text := Said(r, cancel); len(text) > maxRest || name != "says nothing" && len(text) == 0 {
							t.Errorf("%d bytes were read", len(text))
						}
					},
				} {
					answer, cancel := ask(t.Context(), t, server)
					if answer.Proto != protocol {
						t.Fatalf("it came by %s", answer.Proto)
					}
					read(answer, cancel)
					_ = answer.Body.Close() // it was cut
					cancel()
				}
			})
		}
	}
}

// ask sends a request that only the test ends.
func ask(ctx context.Context, t *testing.T, server *httptest.Server) (*http.Response, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return answer, cancel
}

// The connection of an answer that ends is used again.
func TestConnectionIsUsedAgain(t *testing.T) {
	for name, body := range map[string]string{"nothing": "", "little": "thanks", "much": strings.Repeat("x", maxRest-1)} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			again := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(i httptrace.GotConnInfo) { again = i.Reused },
			})
			for range 3 {
				answer, cancel := ask(ctx, t, server)
				Drain(answer, cancel)
				if err := answer.Body.Close(); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			if !again {
				t.Error("each request had a connection of its own")
			}
		})
	}
}
