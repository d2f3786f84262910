package access

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/verbs"
)

const (
	first  = "aaaaaaaaaaaaaaaaaaaa"
	second = "bbbbbbbbbbbbbbbbbbbb"
	third  = "cccccccccccccccccccc"
)

func TestTokensHaveNamesAndRoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("# who may do what\n\nann " + first + "\nbot " + second + " operate\n")
	var logged []string
	tokens, err := LoadTokens(path, funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tokens.file.setClock(func() time.Time { return now })
	want := func(text string, want Identity) {
		t.Helper()
		if who, ok := tokens.Find(text); who != want || ok != (want.Role > verbs.None) {
			t.Errorf("%q is %+v, %v; want %+v", text, who, ok, want)
		}
	}
	want(first, Identity{"ann", verbs.Admin})
	want(second, Identity{"bot", verbs.Operate})
	for _, text := range []string{"", "ann", first + "x", first[1:], third} {
		want(text, Identity{})
	}

	write("ann " + third + " read\n")
	now = now.Add(Recheck)
	want(third, Identity{"ann", verbs.Read})
	want(first, Identity{})
	want(second, Identity{})

	write("ann\n") // cannot be used: the last good one stays
	now = now.Add(Recheck)
	want(third, Identity{"ann", verbs.Read})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(Recheck)
	want(third, Identity{"ann", verbs.Read})

	logged = nil
	write("# nobody\n") // takes all of them back
	now = now.Add(Recheck)
	want(third, Identity{})
	if !strings.Contains(strings.Join(logged, "\n"), "what needs a token is refused") {
		t.Errorf("logged %q", logged)
	}
	if _, err := LoadTokens(path, logr.Discard()); err != nil {
		t.Errorf("a replica does not start without any token: %v", err)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"one word":       {"ann\n", `line 1: 1 words; want "NAME TOKEN [read|operate|admin]"`},
		"too many words": {"\nann " + first + " admin x\n", "line 2: 4 words"},
		"a short one":    {"ann hunter2\n", "line 1: the token of ann has 7 bytes; at least 16 are needed"},
		"another role":   {"ann " + first + " root\n", `line 1: role "root": want read, operate or admin`},
		"one for two": {"ann " + first + "\nbob " + first + " read\n", "line 2: the token of bob stands on " +
			"another line as well"},
	} {
		_, err := parseTokens([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), first) {
			t.Errorf("%s: the error shows a token: %v", name, err)
		}
	}
}

// A website may have its name resolved to loopback, or to an address of the network that its visitor's browser is in.
func TestHosts(t *testing.T) {
	named := ListenerHosts([]string{"shardctl.test"}, "replica-1.test:8080")
	for _, test := range []struct {
		hosts       Hosts
		local, host string
		want        bool
	}{
		{named, "127.0.0.1:8081", "127.0.0.1:8081", true},
		{named, "127.0.0.1:8081", "localhost:8081", true},
		{named, "127.0.0.1:8081", "LOCALHOST.", true},
		{named, "127.0.0.1:8081", "page.localhost:8081", true},
		{named, "127.0.0.1:8081", "[::1]:8081", true},
		{named, "[::1]:8081", "[::1]", true},
		{named, "127.0.0.1:8081", "shardctl.test:8081", true},
		{named, "127.0.0.1:8081", "evil.example", false},
		{nil, "127.0.0.1:8081", "evil.example", false},
		{named, "127.0.0.1:8081", "127.0.0.1.evil.example:8081", false},
		{named, "127.0.0.1:8081", "localhost.evil.example", false},
		{named, "[::ffff:127.0.0.1]:8081", "evil.example", false},
		{named, "127.0.0.1:8081", "", false},
		{named, "127.0.0.1:8081", "10.1.2.3:8080", false},

		{named, "10.1.2.3:8080", "shardctl.test", true},
		{named, "10.1.2.3:8080", "SHARDCTL.test.:443", true},
		{named, "10.1.2.3:8080", "replica-1.test:8080", true}, // as other replicas ask
		{named, "10.1.2.3:8080", "10.1.2.3:8080", true},       // as probes do
		{named, "[fd00::1]:8080", "[fd00::1]:8080", true},
		{named, "10.1.2.3:8080", "localhost:8080", true}, // as through a tunnel
		{named, "10.1.2.3:8080", "evil.example", false},
		{named, "[fd00::1]:8080", "evil.example:8080", false},
		{named, "10.1.2.3:8080", "10.1.2.3.evil.example", false},
		{named, "10.1.2.3:8080", "", false},
		{nil, "10.1.2.3:8080", "any.name", true},
		{ListenerHosts(nil, "replica-1.test:8080"), "10.1.2.3:8080", "any.name", true},
	} {
		local, err := net.ResolveTCPAddr("tcp", test.local)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(
			context.WithValue(t.Context(), http.LocalAddrContextKey, local), http.MethodGet, "/", nil,
		)
		r.Host = test.host
		if got := test.hosts.Allow(r); got != test.want {
			t.Errorf("hosts %q: Host %q at %s: %v", test.hosts, test.host, test.local, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, test := range []struct {
		origin, site string
		want         bool
	}{
		{"", "", true}, // curl, the command line
		{"http://127.0.0.1:8081", "same-origin", true},
		{"https://127.0.0.1:8081", "", true},
		{"", "none", true},
		{"http://evil.example", "cross-site", false},
		{"http://evil.example", "", false},
		{"http://127.0.0.1:8080", "same-site", false},
		{"http://127.0.0.1:8080", "", false},
		{"null", "", false},
		{"", "cross-site", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8081/", nil)
		for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := SameOrigin(r); got != test.want {
			t.Errorf("Origin %q, Sec-Fetch-Site %q: %v", test.origin, test.site, got)
		}
	}
}
