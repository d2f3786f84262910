package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencehttp"
)

// answered is what a handler behind a fence answers a request with these headers.
func answered(t *testing.T, f fence.Fence, next http.HandlerFunc, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("x"))
	r.Header = header
	w := httptest.NewRecorder()
	fencehttp.Handler(f, next).ServeHTTP(w, r)
	return w
}

func TestMalformedHeadersAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		key, token []string
		says       string
	}{
		"no key":        {nil, []string{"1"}, "Shardctl-Key: must be set"},
		"empty key":     {[]string{""}, []string{"1"}, "key: must not be empty"},
		"two keys":      {[]string{"a", "b"}, []string{"1"}, "Shardctl-Key: is there 2 times"},
		"no token":      {[]string{"k"}, nil, "Shardctl-Fencing-Token: must be set"},
		"two tokens":    {[]string{"k"}, []string{"1", "2"}, "Shardctl-Fencing-Token: is there 2 times"},
		"zero":          {[]string{"k"}, []string{"0"}, "must be more than 0"},
		"negative":      {[]string{"k"}, []string{"-1"}, `"-1": must be a whole number`},
		"sign":          {[]string{"k"}, []string{"+1"}, `"+1": must be a whole number`},
		"word":          {[]string{"k"}, []string{"one"}, `"one": must be a whole number`},
		"fraction":      {[]string{"k"}, []string{"1.0"}, `"1.0": must be a whole number`},
		"too large":     {[]string{"k"}, []string{"9223372036854775808"}, "from 1 to 9007199254740992"},
		"no revision":   {[]string{"k"}, []string{"9007199254740993"}, "must be at most 9007199254740992"},
		"several words": {[]string{"k"}, []string{"1, 2"}, "must be a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			w := answered(t, new(fence.Memory), func(http.ResponseWriter, *http.Request) { t.Error("it was called") },
				http.Header{fencehttp.HeaderKey: tt.key, fencehttp.HeaderToken: tt.token})
			var problem api.Error
			if err := json.NewDecoder(w.Body).Decode(&problem); err != nil {
				t.Fatal(err)
			}
			if w.Code != http.StatusBadRequest || problem.Status != w.Code || problem.Reason != api.ReasonInvalid ||
				!strings.Contains(problem.Detail, tt.says) {
				t.Errorf("%d %+v, want %s", w.Code, problem, tt.says)
			}
		})
	}
}

func TestOldTokenIsAConflict(t *testing.T) {
	var fences fence.Memory
	called := 0
	next := func(w http.ResponseWriter, _ *http.Request) {
		called++
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "made")
	}
	if w := answered(t, &fences, next, headers("k", 9)); w.Code != http.StatusCreated || w.Body.String() != "made" ||
		w.Header().Get("X") != "y" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	w := answered(t, &fences, next, headers("k", 8))
	if w.Code != http.StatusConflict || w.Header().Get("Content-Type") != "application/problem+json" || called != 1 {
		t.Errorf("%d %v after %d calls", w.Code, w.Header(), called)
	}
	const want = `{"type":"about:blank","title":"Conflict","status":409,` +
		`"detail":"token 8 of k is old: 9 has been seen: another owner has followed","reason":"OldToken"}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What outer middleware has set stays, unless the handler replaces or removes it, as without a fence. Refusals have it
// as well.
func TestOuterHeadersStay(t *testing.T) {
	var fences fence.Memory
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "cart", Value: "42"})
		w.Header().Add("Vary", "Accept-Encoding")
		w.Header().Set("Cache-Control", "private")
		w.Header().Del("X-Frame-Options")
		w.WriteHeader(http.StatusCreated)
	})
	outer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "renewed"})
			w.Header().Add("Vary", "Origin")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Frame-Options", "DENY")
			next.ServeHTTP(w, r)
		})
	}
	ask := func(next http.Handler, token int64) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Header = headers("k", token)
		w := httptest.NewRecorder()
		outer(next).ServeHTTP(w, r)
		return w
	}
	want, fenced := ask(handler, 9), ask(fencehttp.Handler(&fences, handler), 9)
	if !reflect.DeepEqual(fenced.Header(), want.Header()) || fenced.Code != want.Code {
		t.Errorf("%d %v\nwant %d %v", fenced.Code, fenced.Header(), want.Code, want.Header())
	}
	refused := ask(fencehttp.Handler(&fences, handler), 8)
	if refused.Code != http.StatusConflict || refused.Header().Get("Set-Cookie") != "session=renewed" ||
		refused.Header().Get("X-Frame-Options") != "DENY" {
		t.Errorf("an old token: %d %v, want the outer header", refused.Code, refused.Header())
	}
}

// A full fence says that nothing was done.
func TestFullFenceIsUnavailable(t *testing.T) {
	fences := fence.Memory{MaxKeys: 1}
	next := func(http.ResponseWriter, *http.Request) {}
	answered(t, &fences, next, headers("a", 7))
	w := answered(t, &fences, next, headers("b", 7))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "nothing was done") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// transaction records whether its work was committed. With failure its commit fails.
type transaction struct {
	committed bool
	failure   error
}

func (f *transaction) Do(ctx context.Context, _ fence.Claim, work func(context.Context) error) error {
	if err := work(ctx); err != nil {
		return err
	}
	f.committed = f.failure == nil
	return f.failure
}

// An answer that is an error rolls back, and reaches the client as it is.
func TestErrorsOfTheHandlerRollBack(t *testing.T) {
	for status, committed := range map[int]bool{
		0: true, http.StatusOK: true, http.StatusSeeOther: true, http.StatusBadRequest: false,
		http.StatusInternalServerError: false,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := new(transaction)
			w := answered(t, f, func(w http.ResponseWriter, _ *http.Request) {
				if status != 0 {
					w.WriteHeader(status)
					w.WriteHeader(http.StatusTeapot) // the first one counts
				}
				_, _ = io.WriteString(w, "answer")
			}, headers("k", 7))
			want := max(status, http.StatusOK)
			if f.committed != committed || w.Code != want || w.Body.String() != "answer" {
				t.Errorf("committed %t, %d %s; want %t, %d", f.committed, w.Code, w.Body, committed, want)
			}
		})
	}
}

// No one gets an answer about work that was not committed, nor what a database says.
func TestFailedFenceIsUnavailable(t *testing.T) {
	f := &transaction{failure: errors.New("secret of the database")}
	w := answered(t, f, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", "y")
		_, _ = io.WriteString(w, "made")
	}, headers("k", 7))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") ||
		strings.Contains(w.Body.String(), "made") || w.Header().Get("X") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func ExampleHandler() {
	var fences fence.Memory
	handler := fencehttp.Handler(&fences, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent) // the work
	}))
	for _, token := range []string{"7", "9", "7", "x"} {
		r := httptest.NewRequest(http.MethodPost, "/orders", nil)
		r.Header.Set("Shardctl-Key", "topics/orders")
		r.Header.Set("Shardctl-Fencing-Token", token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(token, w.Code)
	}
	// Output:
	// 7 204
	// 9 204
	// 7 409
	// x 400
}
