// Package process holds the scenarios of faults in processes. Parts of a replica are killed, stopped, thawed in the
// worst order or cut off from each other. Keys are typed at its terminal; tasks, HTTP endpoints and callbacks
// misbehave.
//
//	go test -v ./test/e2e/faults/process                                  all of them, some minutes
//	go test -v ./test/e2e/faults/process -ginkgo.focus='stopped'          those whose words match
//	go test -v ./test/e2e/faults/process -ginkgo.label-filter=sqlite      those of one store
//
// They judge by what the tasks recorded. Where something is not promised (a replica frozen with its leases in hand),
// the scenario says what is instead. That is how soon after the thaw the old run ends, and that the later owner has the
// larger token.
package process
