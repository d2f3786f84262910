package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// of is a client of a handler.
func of(t *testing.T, h http.HandlerFunc, options ...client.Option) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, append([]client.Option{client.WithHTTPClient(server.Client())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatNewRefuses(t *testing.T) {
	const good = "http://127.0.0.1:8081"
	for name, test := range map[string]struct {
		url    string
		option client.Option
		want   string
	}{
		"no scheme":        {"127.0.0.1:8081", nil, "want http://HOST:PORT"},
		"another scheme":   {"ftp://127.0.0.1", nil, "want http://HOST:PORT"},
		"no host":          {"http:///x", nil, "want http://HOST:PORT"},
		"a query":          {good + "?a=b", nil, "want http://HOST:PORT"},
		"a password":       {"http://ann:hunter2@127.0.0.1", nil, "give a token with WithToken"},
		"no URL":           {"http://ann:hunter2@[", nil, "not a URL"},
		"a broken token":   {good, client.WithToken("hunter2\nX: y"), "want one word"},
		"no file":          {good, client.WithTokenFile(""), "no path"},
		"a time below 0":   {good, client.WithTimeout(-time.Second), "timeout -1s: want 0 or more"},
		"control in token": {good, client.WithToken("hunter2\x00"), "want one word"},
	} {
		var options []client.Option
		if test.option != nil {
			options = append(options, test.option)
		}
		_, err := client.New(test.url, options...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q and no secret", name, err, test.want)
		}
	}
	if c, err := client.New(good + "/sub/"); err != nil || c.BaseURL() != good+"/sub" {
		t.Errorf("%v, %v", c, err)
	}
}

// Each answer about the cluster says whether it is stale: lists page by page, single objects, and the status.
func TestStaleAnswersAreHeardOf(t *testing.T) {
	answer := ""
	var heard []bool
	c := of(
		t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) },
		client.WithStale(func(stale bool) { heard = append(heard, stale) }),
	)
	for name, ask := range map[string]func() error{
		"status":      func() error { _, err := c.Status(t.Context()); return err },
		"a task":      func() error { _, err := c.Tasks().Get(t.Context(), "g", "t"); return err },
		"a group":     func() error { _, err := c.Groups().Get(t.Context(), "g"); return err },
		"an instance": func() error { _, err := c.Instances().Get(t.Context(), "a"); return err },
		"tasks":       func() error { _, err := c.Tasks().List(t.Context(), client.Filter{}); return err },
		"events":      func() error { _, err := c.Events().List(t.Context(), client.Filter{}); return err },
		"runs":        func() error { _, err := c.Tasks().Runs(t.Context(), "g", "t"); return err },
	} {
		for _, stale := range []bool{true, false} {
			answer, heard = fmt.Sprintf(`{"name":"x","stale":%v}`, stale), nil
			if err := ask(); err != nil || !slices.Equal(heard, []bool{stale}) {
				t.Errorf("%s: heard %v of %s, %v", name, heard, answer, err)
			}
		}
	}
	answer, heard = `{"name":"eve","role":"read","verbs":[]}`, nil
	if who, err := c.WhoAmI(t.Context()); err != nil || who.Name != "eve" || heard != nil {
		t.Errorf("what is not of the store is never stale: %+v, %v, heard %v", who, err, heard)
	}
}

func TestTokenFilesAreReadForEachRequest(t *testing.T) {
	var got string
	file := filepath.Join(t.TempDir(), "token")
	c := of(
		t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") },
		client.WithTokenFile(file),
	)
	if err := c.Livez(t.Context()); err == nil || got != "" {
		t.Errorf("without the file: %v, %q was sent", err, got)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Livez(t.Context()); err != nil || got != "Bearer "+token {
			t.Errorf("%v, %q was sent", err, got)
		}
	}
}

func TestErrorsSayWhatTheReplicaSaid(t *testing.T) {
	c := of(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write(
			[]byte(`{"status":409,"title":"Conflict","reason":"NoCapacity","detail":"web-2: owns 20 of 20"}`),
		)
	})
	_, err := c.Tasks().Move(t.Context(), client.Keys("a/b"), "web-2", client.ChangeOptions{})
	var said *api.Error
	if !errors.As(err, &said) || said.Reason != api.RefusedNoCapacity || said.RetryAfter != 7*time.Second ||
		err.Error() != "web-2: owns 20 of 20" {
		t.Errorf("%#v", err)
	}
	for _, is := range []error{client.ErrRefused, &api.Error{Reason: api.RefusedNoCapacity}} {
		if !errors.Is(err, is) {
			t.Errorf("%v is not %v", err, is)
		}
	}
	for _, not := range []error{client.ErrNotFound, client.ErrUnavailable, &api.Error{}, &api.Error{
		Reason: "NoCapacity", Status: 404,
	}} {
		if errors.Is(err, not) {
			t.Errorf("%v is %#v", err, not)
		}
	}
}

func TestWhoAsks(t *testing.T) {
	c := of(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/whoami" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"name":"bot","role":"operate","verbs":["pause","resume"]}`))
	}, client.WithToken("secret"))
	who, err := c.WhoAmI(t.Context())
	if err != nil || who.Name != "bot" || who.Role != api.RoleOperate || !who.May(api.Pause) || who.May(api.Drain) {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestContextsSayWhyTheyEnd(t *testing.T) {
	over := make(chan struct{})
	stuck := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
	c := of(t, stuck, client.WithTimeout(50*time.Millisecond))
	defer close(over)
	if _, err := c.Status(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the time: %v", err)
	}
	errEnough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	if _, err := c.Tasks().List(ctx, client.Filter{}); !errors.Is(err, errEnough) {
		t.Errorf("after the end: %v", err)
	}
}
