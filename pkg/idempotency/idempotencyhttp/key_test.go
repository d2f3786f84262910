package idempotencyhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // brings the driver of SQLite
)

func TestAnotherRequestUnderTheSameKey(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs})
	s.send("POST", "/orders", "tea", `"k"`)
	wantProblem(t, s.send("POST", "/orders", "coffee", `"k"`), 422, "already used")
	wantProblem(t, s.send("POST", "/refunds", "tea", `"k"`), 422, "already used")
	wantProblem(t, s.send("PATCH", "/orders", "tea", `"k"`), 422, "already used")
	if s.calls != 1 {
		t.Errorf("%d calls, want one", s.calls)
	}
}

func TestKeys(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs, Required: true})
	for _, tt := range []struct {
		key  []string
		text string
	}{
		{nil, "is missing"},
		{[]string{`"a"`, `"a"`}, "sent 2 times"},
		{[]string{`a`}, "no string in double quotes"},
		{[]string{``}, "no string in double quotes"},
		{[]string{`""`}, "is empty"},
		{[]string{`"a`}, "no closing quote"},
		{[]string{`"a\"`}, "no closing quote"},
		{[]string{`"a\`}, "backslash"},
		{[]string{`"a\b"`}, "backslash"},
		{[]string{`"a"; b=1`}, "goes on after its closing quote"},
		{[]string{`"a", "b"`}, "goes on after its closing quote"},
		{[]string{"\"\u00e4\""}, "has the byte 0xc3"},
		{[]string{"\"a\tb\""}, "has the byte 0x9"},
		{[]string{`"` + strings.Repeat("k", 256) + `"`}, "has 256 characters, at most 255"},
	} {
		wantProblem(t, s.send("POST", "/", "", tt.key...), 400, tt.text)
	}
	if s.calls != 0 {
		t.Errorf("%d calls, want none", s.calls)
	}
	for _, key := range []string{`"a"`, ` "a b" `, `"a\"b\\"`, `"` + strings.Repeat("k", 255) + `"`} {
		if w := s.send("POST", "/", "", key); w.Code != 201 {
			t.Errorf("key %s: status %d, %s", key, w.Code, w.Body)
		}
	}
}

// Tasks and subscriptions of shardctl send keys without quotes, with any of the options. Each is a request of its own.
func TestKeysOfShardctl(t *testing.T) {
	long := strings.Repeat("g", 253) + "/" + strings.Repeat("n", 249)
	for _, o := range []idempotencyhttp.Options{
		{}, {Required: true, Unquoted: true}, {Caller: func(*http.Request) string { return strings.Repeat("=", 500) }},
	} {
		o.Docs = docs
		s := open(t, idempotency.Config{}, o)
		for _, key := range []string{
			"g/n@2026-03-29T01:00:00Z", "g/n#7/start/1", "orders/3/42", "queue#ABC-1", "%C3%A4/a%20b/[1]~,\\x0a",
			long + "@2026-03-29T01:00:00Z", long + "@2026-03-29T01:00:01Z",
		} {
			for _, replayed := range []string{"", "true"} {
				if w := s.send("POST", "/", key, key); w.Code != 201 ||
					w.Header().Get("Idempotent-Replayed") != replayed {
					t.Errorf("%+v, key %.40s: status %d, header %v, %s", o, key, w.Code, w.Header(), w.Body)
				}
			}
		}
		for _, key := range []string{`a/b c`, `a/"b"`, "a/\u00e4"} {
			wantProblem(t, s.send("POST", "/", "", key), 400, "no string in double quotes")
		}
	}
}

// An ID that a program gives its messages may look like anything. The request says that it is a message.
func TestAMessageWithAnIDOfItsOwn(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Required: true})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("tea"))
	r.Header.Set("Idempotency-Key", "42")
	r.Header.Set("Shardctl-Event", "message")
	w := httptest.NewRecorder()
	if s.handler.ServeHTTP(w, r); w.Code != 201 {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

func TestUnquotedKeysWhenAskedFor(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs, Unquoted: true})
	s.send("POST", "/", "", `8e03978e-40d5`)
	if w := s.send("POST", "/", "", `"8e03978e-40d5"`); w.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("the key in quotes is another: %d, %v", w.Code, w.Header())
	}
	wantProblem(t, s.send("POST", "/", "", `a b`), 400, "no string in double quotes")
}

func TestTheKeysOfTwoCallersNeverMeet(t *testing.T) {
	caller := ""
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Caller: func(*http.Request) string { return caller }})
	for _, caller = range []string{
		"ann", "bob", "a/b", "a", strings.Repeat("ä", 200), strings.Repeat("ä", 201),
	} {
		for _, key := range []string{`"k"`, `"b/k"`} {
			if w := s.send("POST", "/", caller, key); w.Header().Get("Idempotent-Replayed") != "" || w.Code != 201 {
				t.Errorf("%s %s: status %d, got the reply of another", caller, key, w.Code)
			}
		}
	}
}

// A form that is parsed before the middleware leaves an empty body. Its values and files distinguish requests all the
// same.
func TestAFormThatIsParsedBefore(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs})
	s.answer = func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "paid "+r.FormValue("amount")) }
	send := func(contentType, body, key string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Idempotency-Key", key)
		_ = r.FormValue("token") // as one does that looks for forged requests
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w
	}
	part := func(amount, name, file string) string {
		return "--b\r\nContent-Disposition: form-data; name=amount\r\n\r\n" + amount + "\r\n--b\r\n" +
			"Content-Disposition: form-data; name=bill; filename=" + name + "\r\n\r\n" + file + "\r\n--b--\r\n"
	}
	for contentType, bodies := range map[string][]string{
		"application/x-www-form-urlencoded": {"amount=1", "amount=1000", "amount=1&to=bob", ""},
		"multipart/form-data; boundary=b": {
			part("1", "a", "tea"), part("1000", "a", "tea"), part("1", "b", "tea"), part("1", "a", "coffee"),
		},
	} {
		key := `"` + contentType + `"`
		for range 2 {
			if w := send(contentType, bodies[0], key); !strings.HasPrefix(w.Body.String(), "paid 1made of") {
				t.Errorf("%s: status %d, %s", contentType, w.Code, w.Body)
			}
		}
		for _, other := range bodies[1:] {
			wantProblem(t, send(contentType, other, key), 422, "already used")
		}
	}
}
