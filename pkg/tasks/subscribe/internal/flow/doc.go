// Package flow decides what is to be done with the messages of one subscription: which are delivered now, which wait,
// which become dead letters, and which may be acknowledged.
//
// It is a state machine: it starts no goroutine, does no I/O and reads no clock. Its rules:
//
//   - At most InFlight messages are held: received and not acknowledged. Where the source can leave partitions out, that
//     counts for each partition with a message that failed, and for all others together.
//   - A lane is a partition, a key of it, or a single message, by the order that is asked for.
//   - Messages of one lane are delivered one after another, in the order in which they were received. The next one goes
//     when the one before it has been worked on, or is a confirmed dead letter.
//   - A message that failed waits, and holds up its lane alone.
//   - Attempts before this flow count, but for the last: no message becomes a dead letter that this flow has not tried.
//   - Where acknowledgements are cumulative, a message is acknowledged only with all before it in its partition.
//   - When the flow drains, only what such acknowledgements wait for still begins. So nothing that was worked on comes
//     again after an orderly stop, unless a message before it has failed.
package flow
