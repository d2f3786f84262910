package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/storecheck"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// told is a driver of stores in memory that say of themselves what a test wants.
type told struct{}

// inspected is such a store; its URI says what is wrong.
type inspected struct {
	*memory.Store
	uri string
}

func init() { store.Register("told", told{}) }

func (told) Name() string                               { return "told" }
func (told) Form(scheme string) string                  { return scheme + ":WORDS" }
func (told) Parse(c store.Config) (store.Config, error) { return c, nil }
func (told) Redact(uri string) string                   { return uri }
func (told) Obstructs(store.Config, int) (bool, error)  { return false, nil }
func (told) Limits() store.Limits                       { return store.Limits{} }
func (told) Open(_ context.Context, c store.Config) (store.Store, error) {
	return inspected{memory.New(), c.URI}, nil
}

func (s inspected) Inspect(ctx context.Context) (store.Inspection, error) {
	durable := !strings.Contains(s.uri, "setting")
	return store.Inspection{Settings: []store.Setting{{Name: "durable", Value: "maybe", Want: "yes", Holds: durable}}},
		ctx.Err()
}

func (s inspected) Problems() []store.Problem {
	var all []store.Problem
	for _, reason := range []string{"StorePolled", "StoreNotDurable"} {
		if strings.Contains(s.uri, reason) {
			all = append(all, store.Problem{Reason: reason, Message: "so it is"})
		}
	}
	return all
}

// Only a promise that is not kept is exit code 1, and what was found is printed all the same.
func TestStoreCheckSaysWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		uri, says, saysNot string
		code               int
	}{
		{"told:nothing", "ok: nothing is missing", "worth knowing", 0},
		{"told:StorePolled", "worth knowing:\n  StorePolled: so it is", "missing for the promises:", 0},
		{"told:StoreNotDurable", "missing for the promises:\n  StoreNotDurable: so it is", "ok:", cli.CodeNo},
		{"told:setting", "StoreSetting: durable is maybe, the promises need yes", "ok:", cli.CodeNo},
	} {
		stdout, stderr, code := execute(t, "store", "check", tt.uri)
		if code != tt.code || !strings.Contains(stdout, tt.says) || strings.Contains(stdout, tt.saysNot) ||
			stderr != "" {
			t.Errorf("%s: code %d, want %d and %q\n%s%s", tt.uri, code, tt.code, tt.says, stdout, stderr)
		}
		stdout, stderr, code = execute(t, "store", "check", tt.uri, "-o", "json")
		var got storecheck.Result
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != tt.code || got.Holds != (tt.code == 0) {
			t.Errorf("%s: code %d, holds %t, %v\n%s%s", tt.uri, code, got.Holds, err, stdout, stderr)
		}
	}
}
