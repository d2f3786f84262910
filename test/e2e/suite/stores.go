//go:build linux

package suite

import (
	"iter"

	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/internal/testmongo"
)

// EachStore runs the same scenarios once for each store. uri makes a fresh, empty store; call it from BeforeAll or a
// scenario.
func EachStore(what string, scenarios func(store string, uri func() string), args ...any) {
	for store, uri := range Stores() {
		args := append([]any{Label(store)}, args...)
		args = append(args, func() { scenarios(store, uri) })
		Describe(what+", on "+store, args...)
	}
}

// BothStores are the labels of a scenario that plays on all stores at once.
var BothStores = Label("mongodb", "sqlite")

// OnEachStore plays a scenario that mostly waits on all stores at once.
func OnEachStore(play func(store string, uri func() string)) {
	var parts []func()
	for store, uri := range Stores() {
		parts = append(parts, func() { play(store, uri) })
	}
	AtOnce(parts...)
}

// Stores are the names of all stores, each with what makes a fresh, empty one.
func Stores() iter.Seq2[string, func() string] {
	return func(yield func(string, func() string) bool) {
		_ = yield("mongodb", func() string { return testmongo.Shared(GinkgoTB()) }) && yield("sqlite", SQLiteURI)
	}
}
