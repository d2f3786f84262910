// Package mongo holds the scenarios of faults in MongoDB. Nodes are killed and frozen, elections follow in a row, and a
// replica is cut off by a network that swallows. Answers are lost after the write, and commands are slow or fail in
// every way a real server has.
//
//	go test -v ./test/e2e/faults/mongo                                    all of them, some minutes
//	go test -v ./test/e2e/faults/mongo -ginkgo.focus='elections'          those whose words match
//
// All run on one replica set of three real mongods, which belongs to the package, with electionTimeoutMillis 1000. They
// judge by what the tasks recorded: never two runs at once, tokens that rise, every key running at the end, evenly.
// Each lock is owned by who runs its key. In between no task is restarted unless the lease of its replica ran out.
//
// Network faults go through [testmongo.Link]: a proxy in front of each node for one replica alone. A replica's name is
// the name of the application in its URI. So the server can fail the commands of one replica and not of its neighbours.
//
// [testmongo.Link]: https://pkg.go.dev/github.com/shardctl/shardctl/test/testmongo#Link
package mongo
