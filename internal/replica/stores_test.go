package replica

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/etcdstore"
	"github.com/shardctl/shardctl/pkg/elect/mongostore"
	"github.com/shardctl/shardctl/pkg/elect/sqlstore/postgres"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/sqlite" // the other one that configurations of these tests name
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// troubled is a store with something to report of its database.
type troubled struct {
	store.Store

	reason string
}

func (s troubled) Problems() []store.Problem {
	return []store.Problem{{Reason: s.reason, Message: "so it is"}}
}

// A store and the API write the names of problems each for itself, since neither imports the other.
func TestProblemsOfStoresHaveTheNamesOfTheAPI(t *testing.T) {
	for of, want := range map[string]string{
		mongostore.ReasonStandalone: api.ProblemStoreStandalone,
		mongostore.ReasonArbiter:    api.ProblemStoreArbiter,
		mongostore.ReasonSharding:   api.ProblemStoreSharding,

		postgres.ReasonNotDurable:    api.ProblemStoreNotDurable,
		postgres.ReasonNotReplicated: api.ProblemStoreNotReplicated,
		postgres.ReasonPolled:        api.ProblemStorePolled,

		etcdstore.ReasonNotCompacted: api.ProblemStoreNotCompacted,
		etcdstore.ReasonNearlyFull:   api.ProblemStoreNearlyFull,
	} {
		got := storeProblems(troubled{reason: of})
		if len(got) != 1 || got[0].Reason != want || !slices.Contains(api.ProblemReasons(), want) {
			t.Errorf("%s of the store is shown as %+v, want %s", of, got, want)
		}
	}
}
