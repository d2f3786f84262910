// Package scale holds the scenarios of many replicas, of rollouts, of versions side by side, and of clocks.
//
//	go test -v ./test/e2e/faults/scale                                 all of them, some minutes
//	go test -v ./test/e2e/faults/scale -ginkgo.focus='rolling'         those whose words match
//	go test -v ./test/e2e/faults/scale -ginkgo.label-filter=sqlite     those of one store
//
// Clocks and later versions are those of a second program, built with the tag testhooks when a scenario first needs it.
// Everything else is reported by the program under test.
package scale
