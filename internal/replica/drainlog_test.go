package replica

import (
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/elect/record"
)

// A drain of this instance is one line when it begins and one when it ends; what concerns others is none.
func TestDrainsAreLogged(t *testing.T) {
	var lines []string
	l := drainLog{
		log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), instance: "a",
	}
	mine := record.Override{
		Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a", By: "alice", Reason: "disk",
	}
	other := record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "b"}
	group := record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "a"}
	for _, now := range [][]record.Override{{other, group}, {other, mine}, {mine, group}, {other}, nil} {
		l.note(now)
	}
	want := []string{
		`"level"=0 "msg"="An operator wants less of this instance" "verb"="drain" "by"="alice" "reason"="disk"`,
		`"level"=0 "msg"="This instance takes part again as before" "verb"="undrain"`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("logged was\n%q, want\n%q", lines, want)
	}
}
