package recall_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

func TestKept(t *testing.T) {
	k := recall.ParseAttempts("")
	if k.String() != "" {
		t.Errorf("nothing is %q", k)
	}
	k.Update(map[string]int{"42": 3, "43": 1})
	k.Update(map[string]int{"43": 2, "44": 0})
	k = recall.ParseAttempts(k.String())
	if k.String() != `{"42":3,"43":2}` || k.Of("42") != 3 || k.Of("44") != 0 {
		t.Errorf("got %s", k)
	}
	k.Drop(func(name string) bool { return name == "42" })
	if k.Update(map[string]int{"43": 0}); k.String() != "" {
		t.Errorf("got %s", k)
	}
}

func TestWhatIsNotKept(t *testing.T) {
	for _, text := range []string{"{", `{"a":"b"}`, `{"a":1,"b":-1.5}`, `[1]`, "null", `{"a":-1}`, "attempts"} {
		if k := recall.ParseAttempts(text); k.String() != "" {
			t.Errorf("%s: %s is kept", text, k)
		}
	}
}

// What is known now takes the place of what was known before.
func TestSize(t *testing.T) {
	k := recall.ParseAttempts("")
	for n := range 100 {
		k.Update(map[string]int{fmt.Sprint(n): n + 1})
		if k.Of(fmt.Sprint(n)) != n+1 || strings.Count(k.String(), ":") > 16 {
			t.Fatalf("after %d: %s", n, k)
		}
	}
}
