//go:build linux

package suite

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/internal/testmongo"
)

// EachStore runs the same scenarios once for each store. uri makes a fresh, empty store; call it from BeforeAll or a
// scenario.
func EachStore(what string, body func(store string, uri func() string), args ...any) {
	stores := map[string]func() string{
		"mongodb": func() string { return testmongo.Shared(GinkgoTB()) },
		"sqlite":  SQLiteURI,
	}
	for _, store := range []string{"mongodb", "sqlite"} {
		args := append([]any{Label(store)}, args...)
		args = append(args, func() { body(store, stores[store]) })
		Describe(what+", on "+store, args...)
	}
}
