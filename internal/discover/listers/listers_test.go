package listers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/discover/listers"
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
	l := &listers.HTTP{
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
		t.Errorf("a certificate of no known authority is trusted: %v", err)
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
			_, _ = w.Write([]byte("[" + strings.Repeat(`"`+strings.Repeat("a", 10_000)+`",`, 1_700)))
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
		l := &listers.HTTP{URL: "$(HOST)" + path, Timeout: 300 * time.Millisecond}
		if path == "/large" {
			l.Timeout = 20 * time.Second
		}
		found, err := l.List(t.Context(), env)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "$(HOST)") {
			t.Errorf("%s: %v, %v; want %s", path, found, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is shown: %v", path, err)
		}
	}
	if found, err := (&listers.HTTP{URL: server.URL}).List(t.Context(), env); err != nil || len(found) != 0 {
		t.Errorf("an empty list is %v, %v", found, err)
	}
	for what, l := range map[string]*listers.HTTP{
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

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	env := discover.Env{Lookup: func(string) (string, bool) { return dir, true }}
	for name, content := range map[string]string{
		"a.json": `["a", {"name": "b"}]`, "a.yaml": "- a\n- name: b\n", "a.yml": "[a, b]", "a.txt": "a\nb\n",
		"a": "a\nb",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := listers.File{Path: "$(DIR)/" + name}.List(t.Context(), env)
		if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	lines := filepath.Join(dir, "lines")
	if err := os.WriteFile(lines, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (listers.File{Path: lines}).List(t.Context(), env); err != nil || len(got) != 0 {
		t.Errorf("an empty file of lines: %v, %v", got, err)
	}
	for path, want := range map[string]string{
		"$(DIR)/missing.json": "$(DIR)/missing.json: cannot be read: no such file",
		"$(DIR)":              "is not a regular file",
		"$(DIR)/a.txt.json":   "no such file",
	} {
		_, err := listers.File{Path: path}.List(t.Context(), env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: what a variable brought in is shown: %v", path, err)
		}
	}
	if wrong := (listers.File{}).Validate(); len(wrong) != 1 {
		t.Errorf("without a path: %v", wrong)
	}
}

// A few kilobytes on the wire, or a file that grew by mistake, may stand for millions of entries. Whoever lists, a
// replica takes what is allowed and no more into its memory.
func TestFloods(t *testing.T) {
	const size = listers.MaxSize - 64
	const patience = time.Hour // on a busy machine it takes as long as it takes
	file := func(name, text string) discover.Lister {
		return listers.File{Path: write(t, name, text)}
	}
	address := func(text string) string {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	repeated := func(entry string) string { return "[" + strings.Repeat(entry+",", size/(len(entry)+1)) + entry + "]" }
	queue := `{"name":"q","type":"classic"}`
	for _, c := range []struct {
		what, want string
		lister     discover.Lister
	}{
		{"an address with empty names", "more than 100000", &listers.HTTP{URL: address(repeated(`""`)), Timeout: patience}},
		{"an address with empty objects", "more than 100000", &listers.HTTP{URL: address(repeated(`{}`)), Timeout: patience}},
		{"an address with a long name", "16 KiB", &listers.HTTP{URL: address(`["` + strings.Repeat("a", size)), Timeout: patience}},
		{
			"an address with many labels", "more than 16 KiB",
			&listers.HTTP{URL: address(`[{"labels":{` + strings.Repeat(`"a":"",`, size/7)), Timeout: patience},
		},
		{
			"queues without names", "no name",
			&listers.AMQP{Management: address(repeated("{}")), Queues: []string{"*"}, Timeout: patience},
		},
		{
			"queues", "more than 100000",
			&listers.AMQP{Management: address(repeated(queue)), Queues: []string{"*"}, Timeout: patience},
		},
		{
			"queues that nobody wants", "",
			&listers.AMQP{Management: address(repeated(queue)), Queues: []string{"orders"}, Timeout: patience},
		},
		{"a file of JSON", "more than 100000", file("a.json", repeated(`""`))},
		{"a file of YAML", "larger than 2 MiB", file("a.yaml", repeated(`""`))},
		{"a file of lines", "more than 100000", file("a.txt", strings.Repeat("a\n", size/2))},
		{"a file without a line", "16 KiB", file("b.txt", strings.Repeat("a", size))},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found, err := c.lister.List(t.Context(), discover.Env{})
		runtime.ReadMemStats(&after)
		if len(found) > 0 || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d found, %v; want %s", c.what, len(found), err, c.want)
		}
		// All that was ever taken, which is more than was in use at once.
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 150 {
			t.Errorf("%s: %d MiB were taken", c.what, mib)
		} else {
			t.Logf("%s: %d MiB were taken", c.what, mib)
		}
	}
}

func TestFunctionsAreCalled(t *testing.T) {
	env := discover.Env{Functions: discover.Functions{
		"good":   func(context.Context) ([]discover.Found, error) { return []discover.Found{{Name: "a"}}, nil },
		"fails":  func(context.Context) ([]discover.Found, error) { return nil, errors.New("no database") },
		"panics": func(context.Context) ([]discover.Found, error) { panic("oh") },
		"exits":  func(context.Context) ([]discover.Found, error) { runtime.Goexit(); return nil, nil },
	}}
	if found, err := listers.NewCallback("good").List(t.Context(), env); err != nil || found[0].Name != "a" {
		t.Errorf("%v, %v", found, err)
	}
	for name, want := range map[string]string{
		"fails": `callback "fails": no database`, "panics": `callback "panics": panicked: oh`,
		"exits": "runtime.Goexit", "missing": `callback "missing" is not registered`,
	} {
		l := listers.NewCallback(name)
		for range 2 {
			if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	if _, err := listers.NewCallback("good").List(t.Context(), discover.Env{}); err == nil {
		t.Error("called without any functions")
	}
}

// A function that does not return is left alone, and is not called again before it has.
func TestAFunctionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, calls := make(chan struct{}), 0
		l, env := listers.NewCallback("hangs"), discover.Env{Functions: discover.Functions{
			"hangs": func(context.Context) ([]discover.Found, error) { calls++; <-hold; return nil, nil },
		}}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no answer within 1s"))
		defer cancel()
		if _, err := l.List(ctx, env); err == nil || !strings.Contains(err.Error(), "no answer within 1s") {
			t.Errorf("%v", err)
		}
		if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), "has not returned since") {
			t.Errorf("%v", err)
		}
		close(hold)
		synctest.Wait()
		if _, err := l.List(t.Context(), env); err != nil || calls != 2 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}
