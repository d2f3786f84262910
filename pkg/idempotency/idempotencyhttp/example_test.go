package idempotencyhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
)

func ExampleNew() {
	guard, err := idempotency.New(idempotency.Config{Records: idempotency.Memory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	once, err := idempotencyhttp.New(idempotencyhttp.Options{
		Guard: guard, Required: true, Caller: func(r *http.Request) string { return r.Header.Get("X-Tenant") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := 0
	handler := once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", orders)
	}))
	for _, key := range []string{`"8e03978e"`, `"8e03978e"`, ``} {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("tea"))
		r.Header.Set("X-Tenant", "acme") // an earlier middleware has verified it
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 201 order 1
	// 201 order 1
	// 400 {"title":"Idempotency-Key is missing","status":400,"detail":"This operation needs one Idempotency-Key, a string in double quotes."}
}
