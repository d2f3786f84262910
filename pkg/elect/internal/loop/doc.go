// Package loop drives the engine of an elector with what that must not have: goroutines, timers, contexts and a store.
//
// A [Loop] is the only select. It alone has the engine, and whoever needs the engine hands the loop a function to call
// with it. Beside it are:
//
//   - the mailbox, which delivers those functions;
//   - requests, which runs the engine's store operations and its watch of the store, and the cleaner, which removes
//     what has expired;
//   - [Documents], which reads and writes the store's documents as records, and [Lineage], by which a reply from
//     another lineage of the store is a failure;
//   - the clocks: the machine's steady ones, and the [StoreClock], as the store's replies show it;
//   - the [Lease], for those who look at the clock without the loop, and the [Watchdog], which ends runs at their
//     deadlines where the loop is held up;
//   - the calls that wait for a key;
//   - the publisher, which makes views of the cluster.
package loop
