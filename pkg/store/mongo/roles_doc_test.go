package mongo_test

import (
	"os"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/test/testmongo"
)

// The roles are documented once, and tested from there.
const rolesDoc = "../../../docs/stores/mongodb.md"

// documented returns the commands of the code block in the docs that follows the marker, for another database.
func documented(t *testing.T, marker, database string) []bson.D {
	t.Helper()
	text, err := os.ReadFile(rolesDoc)
	must(t, err)
	commands, err := testmongo.Documented(string(text), marker, database, dbstore.DefaultCluster)
	must(t, err)
	return commands
}

// privilege is one action on one collection; "" is all of the database.
type privilege struct{ collection, action string }

// privilegesOf takes a createRole apart.
func privilegesOf(t *testing.T, createRole bson.D) []privilege {
	t.Helper()
	raw, err := bson.Marshal(createRole)
	must(t, err)
	var role struct {
		Privileges []struct {
			Resource struct{ Collection string }
			Actions  []string
		}
	}
	must(t, bson.Unmarshal(raw, &role))
	var all []privilege
	for _, p := range role.Privileges {
		for _, action := range p.Actions {
			all = append(all, privilege{p.Resource.Collection, action})
		}
	}
	if len(all) == 0 {
		t.Fatalf("no privileges in %v", createRole)
	}
	return all
}
