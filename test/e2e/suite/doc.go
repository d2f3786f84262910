// Package suite is what the packages of end-to-end stories have in common: the binaries under test, clusters that die with their
// story, the checks that hold for every history, and the figures printed at the end.
//
// A package of stories has
//
//	func TestMain(m *testing.M)      { os.Exit(testmongo.Main(m)) }
//	func TestStories(t *testing.T)   { Run(t, "shardctl, under faults") }
//
// Packages of stories run beside each other, each with a replica set of its own; within one they run one after the other.
package suite
