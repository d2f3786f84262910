package application

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// What the head of a call says of its size takes no memory: only what has come does.
func TestACallThatOnlyClaimsToBeLarge(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/sync", strings.NewReader(`{"app":`))
		r.ContentLength = maxSync
		if bad := decode(httptest.NewRecorder(), r, &Request{}); bad == nil || bad.Status != http.StatusBadRequest {
			t.Fatalf("%+v", bad)
		}
	}
	runtime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 20 {
		t.Errorf("a hundred calls took %d MiB", mib)
	}
}
