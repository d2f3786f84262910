package postgres_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/postgres"
)

// The highest timeline of each system counts. A server that does not say which it follows is taken as it is.
func TestTimelines(t *testing.T) {
	type answer struct {
		system, wal string
		says        string // of the error; empty: it is taken
	}
	for name, answers := range map[string][]answer{
		"promoted":      {{"7", "000000010000000000000001", ""}, {"7", "000000020000000000000001", ""}},
		"stale":         {{"7", "0000000A0000000000000001", ""}, {"7", "000000090000000000000001", "timeline 9, and timeline 10"}},
		"other systems": {{"7", "000000020000000000000001", ""}, {"8", "000000010000000000000001", ""}},
		"silent":        {{"7", "000000020000000000000001", ""}, {"", "", ""}, {"7", "", ""}},
		"odd":           {{"7", "no number at all", `"no number at all"`}},
	} {
		judge := postgres.Timelines()
		for i, a := range answers {
			err := judge(a.system, a.wal)
			if a.says == "" && err != nil || a.says != "" && (err == nil || !strings.Contains(err.Error(), a.says)) {
				t.Errorf("%s: answer %d: %v, want it to say %q", name, i, err, a.says)
			}
		}
	}
}
