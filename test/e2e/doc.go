// Package e2e holds the end-to-end tests: the real program as real processes, with real signals, on SQLite and on a real
// MongoDB. The tasks record when they ran. Tests judge by these records (package history) rather than by what the
// program says of itself.
//
// [TestStory] is the one that `go test ./...` plays. All others are scenarios of the suite "scenarios":
//
//	make scenarios                                                                 what CI plays
//	SHARDCTL_TEST=scenarios,mongo go test -v ./test/e2e -ginkgo.label-filter=P3   those of one promise
//	SHARDCTL_TEST=scenarios go test -v ./test/e2e -ginkgo.label-filter=sqlite     those of one store
//
// Files are named after what they are about. Those whose names begin with process, mongo, documents, sqlite or scale
// hold faults, and their scenarios have the labels faults-process and so on:
//
//   - process: parts of a replica are killed, stopped, thawed in the worst order or cut off from each other. Keys are
//     typed at its terminal; tasks, HTTP endpoints and callbacks misbehave. Where something is not promised (a replica
//     frozen with its leases in hand), the scenario says what is instead: how soon after the thaw the old run ends, and
//     that the later owner has the larger token.
//   - mongo: nodes are killed and frozen, elections follow in a row, a network swallows, answers are lost after the
//     write, and commands are slow or fail. All run on one replica set of three mongods for each test process, with
//     electionTimeoutMillis 1000. Network faults go through [testmongo.Link], a proxy in front of each node for one
//     replica alone. A replica's name is the name of the application in its URI, so the server can fail the commands of
//     one replica and not of its neighbours.
//   - documents: somebody deletes or edits what replicas keep in their store, in every collection and table. One
//     cluster for each store goes through all of it, one round after the other. No replica crashes, and all tasks run
//     again soon after. Two runs of a key at once are allowed only where design and README say so, and for a short time.
//   - sqlite: the file is full, locked, deleted, replaced, cut off, overwritten or made read-only.
//   - scale: many replicas, rollouts, versions side by side, and wrong clocks. Clocks and later versions are those of a
//     second program, built with the tag testhooks when a scenario first needs it.
//
// README.md lists all scenarios, and says which of them only nightly plays.
//
// [testmongo.Link]: https://pkg.go.dev/github.com/shardctl/shardctl/test/testmongo#Link
package e2e
