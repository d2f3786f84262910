// Package redis is the source of messages that reads Redis streams.
//
// By default the position is a consumer group's, and one entry is acknowledged by one XACK. A hash beside the stream
// holds the fencing token of the last owner. Every command that changes the group goes through a script that compares
// the token first. So a replica that has lost its lease takes nothing and acknowledges nothing.
//
// With offsets: store the position is kept with the lock instead, and nothing is written to Redis but dead letters.
//
// It needs Redis 7.0 or newer, or Valkey, since older ones do not count the entries that were added to a stream.
package redis
