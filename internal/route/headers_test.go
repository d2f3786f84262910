package route

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
)

const secret = "of-shardctl-0123456789=="

// Wherever a sender puts a token of shardctl, the owner of a key does not see it.
func TestTokensReachNoOwner(t *testing.T) {
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	var seen http.Header
	h := New(Config{
		Source: boardOf(owning(7, app(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))),
		Known:  func(token string) bool { return token == secret },
	})
	for _, c := range []struct {
		name   string
		values []string
		stays  bool
	}{
		{"Authorization", []string{"Bearer " + secret}, false},
		{"Authorization", []string{"bEaReR \t " + secret}, false},
		{"Authorization", []string{"Bearer\t" + secret}, false},
		{"Authorization", []string{"Bearer of-the-app", "Bearer " + secret}, false},
		{"Authorization", []string{"Bearer of-the-app, Bearer " + secret}, false},
		{"Authorization", []string{"Token token=\"" + secret + "\""}, false},
		{"Authorization", []string{basic("ann:" + secret)}, false},
		{"Authorization", []string{basic(secret + ":")}, false},
		{"Authorization", []string{secret}, false},
		{"Proxy-Authorization", []string{"Bearer " + secret}, false},
		{"X-Auth-Token", []string{secret}, false},
		{"X-Api-Key", []string{"a", "b", secret}, false},
		{"Cookie", []string{"a=b; token=" + secret + "; c=d"}, false},
		{"Authorization", []string{"Bearer of-the-app"}, true},
		{"Authorization", []string{basic("ann:of-the-app")}, true},
		{"Cookie", []string{"a=b; token=of-the-app"}, true},
		{"X-Auth-Token", []string{"x" + secret}, true},
	} {
		r := post("/route/g/a", "")
		r.Header[c.name] = c.values
		if got := send(t, h, r); got.Code != http.StatusOK {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		if got := fmt.Sprint(seen); strings.Contains(got, secret) && !c.stays || (seen[c.name] != nil) != c.stays &&
			c.name != "Proxy-Authorization" {
			t.Errorf("of %s %q the owner sees %s", c.name, c.values, got)
		}
	}
	if holdsToken(secret, func(string) bool { return false }) {
		t.Error("what is no token is one")
	}
}

// What a sender says in the name of shardctl is left out, also behind the body, and with other letters.
func TestSendersSayNothingForShardctl(t *testing.T) {
	var head, trailer http.Header
	owner := app(t, func(_ http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 1<<10)
		for {
			if _, err := r.Body.Read(buffer); err != nil {
				break
			}
		}
		head, trailer = r.Header.Clone(), r.Trailer.Clone()
	})
	server := httptest.NewServer(New(Config{Source: boardOf(owning(7, owner))}))
	defer server.Close()
	for _, body := range []int{3, maxKept + 3} { // what is kept to be sent again, and what is not
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST /route/g/a/x HTTP/1.1\r\nHost: localhost\r\nConnection: close, Shardctl-Key\r\n"+
			"Transfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: Shardctl-Key, Shardctl-Fencing-Token, X-Evil\r\n"+
			"Shardctl_Key: g/other\r\nSHARDCTL-FENCING_TOKEN: 99\r\nX_Forwarded_For: 6.6.6.6\r\n\r\n"+
			"%x\r\n%s\r\n0\r\nShardctl-Key: g/other\r\nShardctl-Fencing-Token: 99\r\nX-Evil: 1\r\n\r\n",
			body, strings.Repeat("a", body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", answer, err)
		}
		_ = answer.Body.Close()
		_ = conn.Close()
		if len(trailer) > 0 || head.Get(api.KeyHeader) != "g/a" || head.Get(api.TokenHeader) != "7" ||
			len(head[api.KeyHeader]) != 1 || slices.ContainsFunc([]string{"_", "Trailer", "Te:", "other", "99"},
			func(text string) bool { return strings.Contains(fmt.Sprint(head), text) }) {
			t.Errorf("the owner sees %v and, behind the body, %v", head, trailer)
		}
	}
}

// What an owner answers counts for itself, and for nothing else of the page's origin.
func TestOwnersSpeakForNoOrigin(t *testing.T) {
	names := append([]string{
		"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Content-Security-Policy",
	}, forOrigin...)
	h := New(Config{Source: boardOf(owning(7, app(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range names {
			w.Header().Add(name, "*")
			w.Header().Add(name, "again")
		}
		w.Header().Set("X-App", "kept")
		w.Header().Set("Content-Type", "text/html")
	})))})
	got := send(t, h, post("/route/g/a/", "")).Header()
	for _, name := range names {
		if values := got[name]; len(values) > 0 && (name != "Content-Security-Policy" || fmt.Sprint(values) != "[sandbox]") {
			t.Errorf("%s: %q", name, values)
		}
	}
	if got.Get("X-App") != "kept" || got.Get("Content-Type") != "text/html" || got.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", got)
	}
}

// Methods that would show a sender's headers, or open a tunnel, are not forwarded.
func TestMethodsThatAreNotForwarded(t *testing.T) {
	calls := 0
	h := New(Config{Source: boardOf(owning(7, app(t, func(http.ResponseWriter, *http.Request) { calls++ })))})
	for _, method := range []string{http.MethodTrace, http.MethodConnect} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/route/g/a/x", http.NoBody)
		r.Method = method
		if got := send(t, h, r); got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") == "" {
			t.Errorf("%s: %d", method, got.Code)
		}
	}
	if calls > 0 {
		t.Error("the owner was asked")
	}
	for _, method := range []string{"DELETE", "PATCH", "PUT", "OPTIONS", "PURGE"} {
		r := httptest.NewRequestWithContext(t.Context(), method, "/route/g/a/x", http.NoBody)
		if got := send(t, h, r); got.Code != http.StatusOK {
			t.Errorf("%s: %d", method, got.Code)
		}
	}
}
