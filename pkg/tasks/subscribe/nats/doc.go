// Package nats is the source of messages that reads NATS: streams of JetStream, and plain subjects.
//
// The position in a stream is that of a durable pull consumer. Each owner, and each Open, makes one of its own, which
// begins after what the last one had acknowledged, and deletes the last one. So what was not acknowledged comes again
// at once and in order, and the acknowledgements of an earlier owner find no consumer.
//
// A plain subject has no memory. What is published while no one is subscribed is lost, and there is nothing to
// acknowledge.
package nats
