package admin_test

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/test/suites"
)

const whoami = "/api/v1/whoami"

// all are the changes that there are.
func all() []api.Verb {
	every := slices.Concat(verbs.Of(record.ScopeTask), verbs.Of(record.ScopeGroup), verbs.Of(record.ScopeInstance))
	slices.Sort(every)
	return slices.Compact(every)
}

// caller is what a listener says of who asks.
func (l *listener) caller(url string, headers ...string) api.Caller {
	l.t.Helper()
	code, _, text := l.askAt(url, http.MethodGet, whoami, "", headers...)
	var c api.Caller
	if err := json.Unmarshal([]byte(text), &c); err != nil || code != http.StatusOK {
		l.t.Fatalf("%d %s (%v)", code, text, err)
	}
	return c
}

func TestWhoAsksIsSaid(t *testing.T) {
	open, closed := serve(t, false), serve(t, true)
	operates := []api.Verb{api.Pause, api.Rerun, api.Restart, api.Resume, api.Trigger}
	for name, test := range map[string]struct {
		l     *listener
		url   string
		token string
		want  api.Caller
	}{
		"no tokens":          {open, open.url, "", api.Caller{Name: "local", Role: api.RoleAdmin, Verbs: all()}},
		"no tokens, reads":   {open, open.reads, "", api.Caller{Name: "local", Role: api.RoleRead}},
		"no token":           {closed, closed.url, "", api.Caller{Role: api.RoleNone}},
		"no token, reads":    {closed, closed.reads, "", api.Caller{Role: api.RoleNone}},
		"a token that reads": {closed, closed.url, readToken, api.Caller{Name: "eve", Role: api.RoleRead}},
		"one that operates": {
			closed, closed.url, operateToken, api.Caller{Name: "bot", Role: api.RoleOperate, Verbs: operates},
		},
		"one that administers": {
			closed, closed.url, adminToken, api.Caller{Name: "ann", Role: api.RoleAdmin, Verbs: all()},
		},
		"that one, reads": {closed, closed.reads, adminToken, api.Caller{Name: "ann", Role: api.RoleAdmin}},
	} {
		var headers []string
		if test.token != "" {
			headers = bearer(test.token)
		}
		if test.want.Verbs == nil {
			test.want.Verbs = []api.Verb{}
		}
		if got := test.l.caller(test.url, headers...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// What is said that a token may do is what it may do: every other change is refused.
func TestWhatIsSaidIsWhatIsTaken(t *testing.T) {
	l := serve(t, true)
	for _, token := range []string{adminToken, operateToken, readToken} {
		caller := l.caller(l.url, bearer(token)...)
		for _, path := range posts() {
			verb := api.Verb(path[strings.LastIndex(path, "/")+1:])
			filled := strings.NewReplacer("{group}", "topics", "{name}", "topic-001").Replace(path)
			code, _, text := l.ask(http.MethodPost, filled, `{"dryRun":true}`, bearer(token)...)
			if refused := code == http.StatusForbidden; refused == caller.May(verb) {
				t.Errorf("%s may %v; %s: %d %s", caller.Name, caller.Verbs, path, code, text)
			}
		}
	}
}

// The question is refused like every other: by host, by origin, and after too many wrong tokens.
func TestWhoAsksIsGuarded(t *testing.T) {
	l := serve(t, true)
	for what, url := range map[string]string{"admin": l.url, "server": l.reads} {
		for name, test := range map[string]struct {
			method  string
			headers []string
			want    int
		}{
			"a foreign host":   {http.MethodGet, append(bearer(adminToken), "Host", "evil.example"), 421},
			"another origin":   {http.MethodGet, append(bearer(adminToken), "Origin", "https://evil.example"), 403},
			"another site":     {http.MethodGet, append(bearer(adminToken), "Sec-Fetch-Site", "cross-site"), 403},
			"not to be posted": {http.MethodPost, bearer(adminToken), 405},
			"an unknown token": {http.MethodGet, bearer("wrongwrongwrongwrong"), 401},
		} {
			code, _, text := l.askAt(url, test.method, whoami, "", test.headers...)
			l.nothingChanged(what+": "+name, code, test.want, text)
			if strings.Contains(text, "ann") {
				t.Errorf("%s: %s: the answer names the token: %s", what, name, text)
			}
		}
	}
	code := 0
	for range 20 {
		if code, _, _ = l.ask(http.MethodGet, whoami, "", bearer("guessguessguessguess")...); code != 401 {
			break
		}
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("after many wrong tokens: %d", code)
	}
	if got := l.caller(l.url, bearer(adminToken)...); got.Name != "ann" {
		t.Errorf("the known token is held back: %+v", got)
	}
}

// Tokens that are replaced while the listener runs end within two seconds.
func TestRotatedTokensEnd(t *testing.T) {
	suites.Need(t, suites.Processes, "two seconds of the wall clock")
	if access.Recheck >= 2*time.Second {
		t.Errorf("the file is looked at every %v", access.Recheck)
	}
	l := serve(t, true)
	ask := func(token string) int {
		code, _, _ := l.ask(http.MethodPost, "/api/v1/instances/a/drain", "{}", bearer(token)...)
		return code
	}
	if code := ask(adminToken); code != http.StatusAccepted {
		t.Fatal(code)
	}
	const newer = "anotheranotheranother"
	if err := os.WriteFile(l.tokens+".new", []byte("ann "+newer+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.tokens+".new", l.tokens); err != nil {
		t.Fatal(err)
	}
	// What is asked later than two seconds after is refused, however long the answers take.
	rotated := time.Now()
	for asked := rotated; ask(adminToken) == http.StatusAccepted; asked = time.Now() {
		if after := asked.Sub(rotated); after > 2*time.Second {
			t.Fatalf("the old token is good for %v", after)
		}
	}
	if code := ask(newer); code != http.StatusAccepted {
		t.Errorf("the new token: %d", code)
	}
	if code := ask(adminToken); code != http.StatusUnauthorized {
		t.Errorf("the old token: %d", code)
	}
	if code := ask(operateToken); code != http.StatusUnauthorized {
		t.Errorf("the token that was taken out: %d", code)
	}
}

// After ten wrong tokens further ones have to wait. One that is known does not, though it comes from the same address:
// behind a proxy all do.
func TestWrongTokensHaveToWait(t *testing.T) {
	l := serve(t, true)
	const path = "/api/v1/instances/a/drain"
	wrong := func(want int) http.Header {
		t.Helper()
		code, header, body := l.ask(http.MethodPost, path, "", bearer("wrongwrongwrongwrong")...)
		l.nothingChanged("a wrong token", code, want, body)
		return header
	}
	for range 10 {
		wrong(401)
	}
	if wrong(429).Get("Retry-After") == "" {
		t.Error("does not say until when")
	}
	code, _, body := l.ask(http.MethodPost, path, "")
	l.nothingChanged("no token", code, 401, body)
	code, _, body = l.ask(http.MethodPost, path, "", bearer(readToken)...)
	l.nothingChanged("too low a role", code, 403, body)
	if code, _, body := l.ask(http.MethodPost, path, "", bearer(adminToken)...); code != 202 {
		t.Errorf("%d %s: a token that is known is held back", code, body)
	}
	l.changer.forget()
	wrong(429)
	l.now = l.now.Add(time.Minute)
	wrong(401)
}
