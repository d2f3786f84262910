package idempotencyhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
)

// Each call has the header of its own outer middleware, first and repeated, and what the handler changed of it. Nothing
// that outer middleware set for one call reaches another, nor the record.
func TestOuterHeadersStay(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs})
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "cart", Value: "42"})
		w.Header().Add("Vary", "Accept-Encoding")
		w.Header().Set("Cache-Control", "private")
		w.Header().Del("X-Frame-Options")
	}
	inner, call := s.handler, 0
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call++
		http.SetCookie(w, &http.Cookie{Name: "session", Value: fmt.Sprint(call)})
		for name, value := range map[string]string{
			"Vary": "Origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Request-Id": fmt.Sprint(call),
			"Content-Type": "application/json", "Link": "</style>; rel=preload",
		} {
			w.Header().Set(name, value)
		}
		inner.ServeHTTP(w, r)
	})
	for i := 1; i <= 3; i++ {
		got := s.send("POST", "/", "tea", `"k"`).Header()
		want := http.Header{
			"Set-Cookie": {fmt.Sprintf("session=%d", i), "cart=42"}, "Vary": {"Origin", "Accept-Encoding"},
			"Cache-Control": {"private"}, "X-Request-Id": {fmt.Sprint(i)}, "Content-Type": {"application/json"},
			"Link": {"</style>; rel=preload"}, "Location": {"/orders/1"},
		}
		if i > 1 {
			want.Set("Idempotent-Replayed", "true")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("call %d:\n%v\nwant\n%v", i, got, want)
		}
	}
	refused := s.send("POST", "/", "coffee", `"k"`).Header()
	if links := refused["Link"]; len(links) != 2 || links[0] != "</style>; rel=preload" ||
		refused.Get("Set-Cookie") != "session=4" || refused.Get("X-Frame-Options") != "DENY" {
		t.Errorf("a refusal: %v, want the outer header, and a second Link", refused)
	}
}

// A client that sends a body of several parts again makes another boundary. Whatever else differs is another request.
func TestABodyOfPartsSentAgain(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs})
	send := func(kind, boundary, body, key string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
			strings.NewReader(strings.ReplaceAll(body, "BOUNDARY", boundary)))
		r.Header.Set("Content-Type", kind+"; boundary="+boundary)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w
	}
	part := func(header, content string) string { return "--BOUNDARY\r\n" + header + "\r\n\r\n" + content + "\r\n" }
	const end, field = "--BOUNDARY--\r\n", "Content-Disposition: form-data; name=amount"
	const file = "Content-Disposition: form-data; name=bill; filename=a\r\nContent-Type: text/plain"
	body := part(field, "1") + part(file, "tea") + end
	others := map[string]string{
		"another value": part(field, "2") + part(file, "tea") + end,
		"another file":  part(field, "1") + part(file, "coffee") + end,
		"another name":  part(field, "1") + part(strings.Replace(file, "=a", "=b", 1), "tea") + end,
		"another type":  part(field, "1") + part(strings.Replace(file, "plain", "html", 1), "tea") + end,
		"another order": part(file, "tea") + part(field, "1") + end,
		"a part more":   part(field, "1") + part(file, "tea") + part(field, "1") + end,
		"a part fewer":  part(field, "1") + end,
		"cut off":       part(field, "1") + part(file, "tea"),
		"no part":       end,
		"empty":         "",
		"moved bytes":   part(field+"\r\nX: 1", "") + part(file, "tea") + end,
	}
	for _, kind := range []string{"multipart/form-data", "multipart/mixed", "multipart/related"} {
		key := `"` + kind + `"`
		for i, boundary := range []string{"b", "b", "another", "x0123456789"} {
			w := send(kind, boundary, body, key)
			if replayed := w.Header().Get("Idempotent-Replayed") == "true"; w.Code != 201 || replayed != (i > 0) {
				t.Errorf("%s %s: status %d, replayed %t", kind, boundary, w.Code, replayed)
			}
		}
		for name, other := range others {
			if w := send(kind, "b", other, key); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s, %s: status %d, want 422", kind, name, w.Code)
			}
		}
	}
}

// All callers without a name would be one, and get the replies of one another.
func TestCallersWithoutANameAreRefused(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{
		Docs: docs, Caller: func(r *http.Request) string { return r.URL.Query().Get("user") },
	})
	wantProblem(t, s.send("POST", "/", "tea", `"k"`), http.StatusForbidden, "caller is not known")
	if s.calls != 0 {
		t.Errorf("the handler was called %d times", s.calls)
	}
	for _, w := range []*httptest.ResponseRecorder{
		s.send("POST", "/?user=ann", "tea", `"k"`), s.send("POST", "/", "tea"), s.send("PUT", "/", "tea", `"k"`),
	} {
		if w.Code != 201 {
			t.Errorf("status %d, want 201: it has a name, no key, or another method", w.Code)
		}
	}
}

// edited are records as somebody has left them in a database.
type edited struct {
	idempotency.Records

	found idempotency.Found
}

func (e edited) Write(context.Context, idempotency.Write) (idempotency.Answer, error) {
	return idempotency.Answer{Found: e.found}, nil
}

// A reply that net/http cannot send, or would cut off, ends no request in a panic.
func TestEditedRepliesAreSentOrRefused(t *testing.T) {
	for status, want := range map[int]int{
		-5: 409, 0: 409, 99: 409, 101: 409, 199: 409, 200: 200, 204: 204, 404: 404, 999: 999, 1000: 409,
	} {
		for name, value := range map[string]string{
			"X-None": "", "Content-Length": "99999", "Transfer-Encoding": "chunked", "Trailer": "X", "X": "a\r\nSet-Cookie: e=1",
		} {
			reply := idempotency.Reply{Status: status, Header: http.Header{name: {value}}, Body: []byte("body")}
			if status == http.StatusNoContent {
				reply.Body = nil
			}
			guard, err := idempotency.New(idempotency.Config{Records: edited{
				idempotency.Memory(), idempotency.Found{Version: 3, Record: idempotency.Record{
					ID: "/k", State: idempotency.Done, Claim: "c", Attempt: 1, Reply: reply,
					Fingerprint: idempotency.Fingerprint([]byte("POST"), []byte("/"), []byte{}),
				}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			once, err := idempotencyhttp.New(idempotencyhttp.Options{Guard: guard, OneCaller: true})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			r.Header.Set("Idempotency-Key", `"k"`)
			w := httptest.NewRecorder()
			once(http.NotFoundHandler()).ServeHTTP(w, r)
			if length := w.Header().Get("Content-Length"); w.Code != want || length != "" ||
				len(w.Header()["Transfer-Encoding"]) > 0 || want == 200 && w.Body.String() != "body" {
				t.Errorf("status %d, %s: %d %v %q, want %d", status, name, w.Code, w.Header(), w.Body, want)
			}
		}
	}
}
