//go:build linux

package testmongo_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/testmongo"
)

// All of 127.0.0.0/8 is this machine's, so a second address is at hand everywhere.
func TestNodesListenWhereTheyAreAsked(t *testing.T) {
	rs := testmongo.New(t, testmongo.Options{Host: "127.0.0.9"})
	for _, n := range rs.Nodes() {
		if !strings.HasPrefix(n.Addr(), "127.0.0.9:") {
			t.Errorf("a node is known as %s", n.Addr())
		}
	}
	if err := rs.StepDown(t.Context()); err != nil { // they reach each other there too
		t.Error(err)
	}
}
