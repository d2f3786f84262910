// Package brokers holds the end-to-end scenarios of subscriptions: real brokers, real replicas, and a receiver that
// records each delivery. A sender numbers its messages, replicas are killed, stopped and added, the broker is started
// again, and package judge says whether what was promised was kept.
//
//	make brokers                                            a short scenario for each kind of broker
//	make brokers WHOLE=1                                    all of them
//	go test -v ./test/e2e/brokers -brokers.rate=1000 -ginkgo.focus='hundred topics'
//
// The sample configurations run as they stand, with the receivers of examples/receiver.
//
// A new kind of source is one entry in kinds_test.go, and one in samples_test.go. They are part of the suite "brokers".
package brokers
