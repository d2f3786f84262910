//go:build linux

package stores_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/internal/testservers"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// The test is the operator. A primary that was replaced never comes back, so each scenario has a pair of its own.
var _ = Describe("Twelve tasks on a primary with a synchronous standby, which is promoted",
	Label(string(testservers.KindPostgres)), func() {
		var (
			pair *testservers.PostgresPair
			f    *failover
		)
		BeforeEach(func(ctx SpecContext) {
			chosen(testservers.KindPostgres)
			pair = testservers.StartPostgresPair(GinkgoTB())
			uri := pair.Primary.Database()
			f = newFailover(ensemble{
				kind:    testservers.KindPostgres,
				uri:     strings.Replace(uri, pair.Primary.Addr, pair.Primary.Addr+","+pair.Standby.Addr, 1),
				servers: []*testservers.Server{pair.Primary, pair.Standby},
				leader:  func(context.Context) (*testservers.Server, error) { return pair.Primary, nil },
			})
			f.balanced(ctx)
		}, NodeTimeout(ScenarioTimeout))
		AfterEach(func() { f.judge() })

		// promoted replaces a primary that is lost, and lets it never be one again.
		promoted := func(by loss) loss {
			return loss{
				name: by.name,
				lose: func(primary *testservers.Server) {
					by.lose(primary)
					pair.Promote()
				},
				back: (*testservers.Server).Kill,
			}
		}
		It("go on when the primary is killed", func(ctx SpecContext) {
			f.goesOn(ctx, promoted(killed))
		}, SpecTimeout(ScenarioTimeout))
		It("go on when the primary is frozen", func(ctx SpecContext) {
			f.goesOn(ctx, promoted(frozen))
		}, SpecTimeout(ScenarioTimeout))
	})
