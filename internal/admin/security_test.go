package admin_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/watchfile"
)

// Tokens that are replaced while the listener runs end within two seconds.
func TestRotatedTokensEnd(t *testing.T) {
	if watchfile.Recheck >= 2*time.Second {
		t.Errorf("the file is looked at every %v", watchfile.Recheck)
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
