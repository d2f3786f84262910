// Package e2e holds the end-to-end scenarios: the real program as real processes, with real signals, on a real MongoDB
// and on SQLite.
//
//	go test ./test/e2e                                         all of them, some minutes
//	go test -v ./test/e2e -ginkgo.label-filter=sqlite          those of one store
//	go test -v ./test/e2e -ginkgo.focus='kill -9'              those whose words match
//	go test -v ./test/e2e -ginkgo.label-filter='!nightly'      all but those that only nightly has
//
// The tasks of the scenarios record when they ran. The scenarios judge by these records (package history) rather than
// by what the program says of itself. With -short none runs.
package e2e
