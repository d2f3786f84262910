// Package amqp is the source of messages from RabbitMQ, by AMQP 0-9-1: its queues and its streams.
//
// A queue has one consumer, which acknowledges each message by itself. An acknowledgement carries no fencing token, and
// the broker has no means to compare one. The token that the receiver gets with each message is the guarantee.
//
// A stream keeps its messages. How far it was read is a checkpoint kept with the lock, which compares tokens.
//
// The source declares nothing: queues, streams and their arguments are the operator's.
package amqp
