package replica

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // the other one that configurations of these tests name
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
		mongo.ReasonStandalone: api.ProblemStoreStandalone,
		mongo.ReasonArbiter:    api.ProblemStoreArbiter,
		mongo.ReasonSharding:   api.ProblemStoreSharding,

		postgres.ReasonNotDurable:    api.ProblemStoreNotDurable,
		postgres.ReasonNotReplicated: api.ProblemStoreNotReplicated,
		postgres.ReasonPolled:        api.ProblemStorePolled,

		etcd.ReasonNotCompacted: api.ProblemStoreNotCompacted,
		etcd.ReasonNearlyFull:   api.ProblemStoreNearlyFull,
	} {
		got := storeProblems(troubled{reason: of})
		if len(got) != 1 || got[0].Reason != want || !slices.Contains(api.ProblemReasons(), want) {
			t.Errorf("%s of the store is shown as %+v, want %s", of, got, want)
		}
	}
}
