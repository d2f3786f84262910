package mongostore_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/pkg/elect/mongostore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// inspected is the one setting of that name.
func inspected(t *testing.T, s *mongostore.Store, name string) store.Setting {
	t.Helper()
	found, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(found.Server, "MongoDB ") {
		t.Fatalf("server %q, %v", found.Server, err)
	}
	for _, setting := range found.Settings {
		if setting.Name == name {
			return setting
		}
	}
	t.Fatalf("no setting %s in %+v", name, found.Settings)
	return store.Setting{}
}

func TestInspectReplicaSet(t *testing.T) {
	s := open(t, mongostore.Options{URI: testmongo.SharedByThree(t)})
	if got := inspected(t, s, "topology"); !got.Holds || !strings.HasPrefix(got.Value, "replica set ") {
		t.Errorf("%+v, want a replica set that holds", got)
	}
	if got := inspected(t, s, "members with data"); got.Value == "0" {
		t.Errorf("%+v, want some", got)
	}
	if got := inspected(t, s, "arbiters"); !got.Holds || got.Value != "0" {
		t.Errorf("%+v, want none, and holding", got)
	}
}
