// Package protocol is the lock's protocol as pure values: events and a clock reading in, a new state and actions
// out. It performs no I/O, reads no clock, and starts no goroutine; package elect is the loop round it.
//
// Four machines make it up, each a comparable value without pointers, so that a model checker can search them:
//
//   - [Session] is this process's membership. It sends heartbeats, and counts its deadlines from the moment the last
//     acknowledged heartbeat was sent. It says when tasks must be cancelled, killed, and surely gone.
//   - [Peer] is another session as seen from here. It says when a heartbeat has stood still for so long that the
//     session may be marked dead.
//   - [Key] is one key in this process: claimed, run, stopped, released, with at most one write under way.
//   - [Value] is what is kept with a key, as one token reads and sets it.
//
// A fifth, [Mutex], is one process in one mutex, read-write lock or semaphore: those who hold it, and a queue. It is a
// value as well, but with lists, which nothing changes in place.
//
// # Why two processes never run one key at a time
//
// A key may be claimed when its owner's session document says dead. The killer writes that only when it has seen
// heartbeat n unchanged for T since the reply that first showed n arrived. Heartbeat n was sent before that arrival.
// The owner stops everything within X = 0.9 T of sending its last acknowledged heartbeat. If that was heartbeat n or
// earlier, the owner was done before the killer's wait was over. This holds as long as the rates of the two clocks
// differ by less than a ratio of 1/0.9. If a later heartbeat landed, the document's revision has changed and the kill
// is refused. If the kill lands first, the later heartbeat is refused and never acknowledged. Offsets of clocks appear
// nowhere.
//
//	          heartbeat acked             D: cancel      0.8 T: kill    X: nothing left
//	holder ──┬──────────────────────────┼──────────────┼──────────────┼────
//	      sent                                                        │
//	killer ────┬──────────────────────────────────────────────────────┼───┬──
//	        seen                                                      first seen + T: mark dead
package protocol
