package cli

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// withSlots adds a group of slots, of which one task is known.
func withSlots(s *snapshot.Cluster) *snapshot.Cluster {
	s.Status.Groups = append(s.Status.Groups, api.Group{Name: "tenants", Slots: 256})
	list := append(slices.Clone(s.Tasks.All()), api.Task{
		Key: "tenants/slot-080", Group: "tenants", Name: "slot-080", State: api.Running, Kind: "exec",
		Owner: api.Owner{Instance: "b", FencingToken: 7},
	})
	snapshot.SortTasks(list)
	s.Tasks = snapshot.Listed(list)
	s.Sort()
	return s
}

func TestSlot(t *testing.T) {
	s := withSlots(sample())
	server := httptest.NewServer(status.New(status.Config{Source: board(s), Events: happened, Runs: ran}))
	t.Cleanup(server.Close)
	for line, want := range map[string]string{
		"slot tenants tenant-1 -o name":               "tenants/slot-080\n",
		"slot tenants tenant-1 -o jsonpath=.instance": "b\n",
		"slot topics tenant-1":                        `group "topics" has no slots`,
		"slot tenant tenant-1":                        "did you mean tenants?",
		"slot tenants tenant-2":                       "slot-113", // not declared by this replica
		"slot tenants":                                "name a group and a key",
	} {
		got := shardctl(t, globals(), append(strings.Fields(line), "--server", server.URL)...)
		if fails := strings.Contains(want, " ") || strings.Contains(line, "-2"); !strings.Contains(got.out+got.err, want) ||
			(got.code != 0) != fails {
			t.Errorf("%s: %+v, want %s", line, got, want)
		}
	}
	if got := shardctl(t, globals(), "slot", "tenants", "tenant-1", "--server", server.URL); got.code != 0 ||
		!strings.Contains(got.out, "tenants/slot-080") || !strings.Contains(got.out, "running") {
		t.Errorf("the table is %+v", got)
	}
}
