package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/admin"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
)

// Strangers share a budget of what is read of the store for them. Who may ask for changes, or has a token, has none.
func TestWhoIsAStranger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("ann "+adminToken+"\neve "+readToken+" read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.LoadTokens(file, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	open, closed := &admin.Guard{}, &admin.Guard{Tokens: tokens}
	for _, test := range []struct {
		what     string
		guard    *admin.Guard
		changes  bool // asked at admin.listen
		logs     bool // server.listen shows output
		token    string
		stranger bool
	}{
		{"admin.listen without tokens", open, true, true, "", false},
		{"admin.listen without the token", closed, true, true, "", true},
		{"admin.listen with a token that reads", closed, true, true, readToken, false},
		{"admin.listen with a token", closed, true, true, adminToken, false},
		{"server.listen without tokens", open, false, true, "", true},
		{"server.listen without the token", closed, false, true, "", true},
		{"server.listen with a token", closed, false, true, readToken, false},
		{"server.listen that shows no output", closed, false, false, "", true},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				board := &snapshot.Board{}
				board.Publish(&snapshot.Cluster{})
				read := status.New(status.Config{Source: board, Events: talkative{}})
				handler := test.guard.ReadOnly(test.guard.Output(read, test.logs))
				if test.changes {
					handler = admin.New(admin.Config{
						Read: read, Source: board, Changer: &changer{}, Guard: test.guard, Logger: logr.Discard(),
					})
				}
				const asked = 60
				answers := make(chan int, asked)
				for i := range asked {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/api/v1/events?q=%d", i), nil)
					r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i%10)
					if test.token != "" {
						r.Header.Set("Authorization", "Bearer "+test.token)
					}
					go func() {
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, r)
						answers <- w.Code
					}()
				}
				begin, codes := time.Now(), map[int]int{}
				for range asked {
					codes[<-answers]++
				}
				refused, took := codes[http.StatusTooManyRequests], time.Since(begin)
				if codes[http.StatusOK]+refused != asked || (refused > 0 && took > 0) != test.stranger {
					t.Errorf("answered %v after %v", codes, took)
				}
			})
		})
	}
}
