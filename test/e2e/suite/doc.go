// Package suite is what the packages of end-to-end scenarios have in common. It has the binaries under test and
// clusters that die with their scenario, when all that ran is judged. It also has limits of time, and the figures
// printed at the end.
//
// A package of scenarios has
//
//	func TestMain(m *testing.M)      { os.Exit(suite.Main(m)) }
//	func TestScenarios(t *testing.T) { suite.Run(t, suites.Scenarios, "shardctl, under faults") }
//
// Scenarios run one after the other, or in several Ginkgo processes. Each runs once: there are no second attempts. What
// is judged in time is judged by [ExpectWithin], which leaves out for how long the machine stood still meanwhile. A
// process or a temporary file that is left behind fails the suite.
package suite
