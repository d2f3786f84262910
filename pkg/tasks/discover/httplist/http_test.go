package httplist_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/discover/httplist"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnAddressIsAsked(t *testing.T) {
	var got *http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`["a", {"name": "b", "partition": 1, "labels": {"team": "core"}, "weight": 3}]`))
	}))
	defer server.Close()
	ca := write(t, "ca.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	l := &httplist.Lister{
		URL: server.URL + "/$(SHARDCTL_GROUP)", Headers: map[string]string{"X-Team": "$(TEAM)", "Host": "names.test"},
		TokenFile: write(t, "token", "s3cret\n"), CAFile: ca,
	}
	env := discover.Env{Group: "orders", Lookup: func(name string) (string, bool) { return "blue", name == "TEAM" }}
	found, err := l.List(t.Context(), env)
	if err != nil || len(found) != 2 || found[0].Name != "a" || found[1].Partition != "1" || found[1].Weight != 3 {
		t.Fatalf("%v, %v", found, err)
	}
	if got.Method != http.MethodGet || got.URL.Path != "/orders" || got.Header.Get("X-Team") != "blue" ||
		got.Host != "names.test" || got.Header.Get("Authorization") != "Bearer s3cret" ||
		got.Header.Get("Accept") != "application/json" {
		t.Errorf("asked with %+v", got)
	}
	l.CAFile = ""
	if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody's is trusted: %v", err)
	}
}

// Whatever is not a list of status 200 is an error, and never an empty list.
func TestWrongAnswers(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/500":
			http.Error(w, "[]", http.StatusInternalServerError)
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/moved":
			http.Redirect(w, r, "/list", http.StatusFound)
		case "/html":
			_, _ = w.Write([]byte("<html>"))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`["a"]`))
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat(" ", discover.MaxSize+1)))
		case "/hangs":
			<-hold
		default:
			_, _ = w.Write([]byte("[]"))
		}
	}))
	defer server.Close()
	defer close(hold)
	env := discover.Env{Lookup: func(name string) (string, bool) {
		return map[string]string{"SECRET": "hunter2", "HOST": server.URL}[name], name == "SECRET" || name == "HOST"
	}}
	for path, want := range map[string]string{
		"/500": "status 500", "/204": "status 204", "/moved": "status 302", "/html": "is not a JSON list",
		"/cut": "unexpected EOF", "/large": "larger than 16 MiB", "/hangs?token=$(SECRET)": "no answer in time",
	} {
		l := &httplist.Lister{URL: "$(HOST)" + path, Timeout: 300 * time.Millisecond}
		if path == "/large" {
			l.Timeout = 20 * time.Second
		}
		found, err := l.List(t.Context(), env)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "$(HOST)") {
			t.Errorf("%s: %v, %v; want %s", path, found, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is told: %v", path, err)
		}
	}
	if found, err := (&httplist.Lister{URL: server.URL}).List(t.Context(), env); err != nil || len(found) != 0 {
		t.Errorf("an empty list is %v, %v", found, err)
	}
	for what, l := range map[string]*httplist.Lister{
		"is not set":         {URL: "http://$(NAME)"},
		"http.tokenFile":     {URL: server.URL, TokenFile: "/nowhere/token"},
		"tls.caFile":         {URL: server.URL, CAFile: "/nowhere/ca"},
		"http.headers.X":     {URL: server.URL, Headers: map[string]string{"X": "$(NAME)"}},
		"connection refused": {URL: "http://u:hunter2@127.0.0.1:1/x"},
	} {
		if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), what) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, what)
		}
	}
}
