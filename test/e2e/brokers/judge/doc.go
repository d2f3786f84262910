// Package judge says whether deliveries of subscriptions kept what is promised. It is pure: it takes what was sent,
// what was received and which faults there were, and returns what is wrong.
//
// What must hold:
//
//   - Every message that its broker confirmed is delivered.
//   - First deliveries of a lane come in the order of sending. A lane is a partition, or a topic that has only one.
//   - A message is delivered again only because a replica crashed or a connection broke between the two deliveries, and
//     at most maxInFlight messages of a task for each of these. An orderly move excuses none.
//   - Tokens of a task never fall.
//   - Bodies arrive as they were sent.
package judge
