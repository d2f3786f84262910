// Package subscribe is the work of subscriptions: a task receives the messages of a topic, a queue or a stream, and has
// each worked on before it acknowledges it.
//
// Two narrow interfaces meet in it. A [Source] is where messages come from: packages kafka, redis, nats, amqp and mqtt
// beside this one. A [Sink] is where they go: packages cloudevents, jsonlines and function. Every source works with
// every sink. [NewKind] makes a source a kind of task.
//
// Delivery is at least once. A message is acknowledged after its delivery has succeeded, or after the broker has
// confirmed its dead letter. Nothing is acknowledged after the lease has ended.
package subscribe
