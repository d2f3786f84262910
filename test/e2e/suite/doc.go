// Package suite is what the packages of end-to-end scenarios have in common. It has the binaries under test and
// clusters that die with their scenario, when all that ran is judged. It also has limits of time, and the figures
// printed at the end.
//
// A package of scenarios has
//
//	func TestMain(m *testing.M)      { os.Exit(testprocess.Main(m)) }
//	func TestScenarios(t *testing.T)   { Run(t, "shardctl, under faults") }
//
// Packages of scenarios run at the same time, each with a replica set of its own; within one they run one after the
// other, or in several Ginkgo processes.
package suite
