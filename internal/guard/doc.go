// Package guard is the parent process of a replica. `shardctl run` is two processes: a small guard, which in a
// container is PID 1, and a worker. The worker is the same binary executed again, and does everything else. The guard
// starts and ends the commands of tasks on the worker's orders, holds the deadlines of its sessions, and outlives it.
//
//	guard ──(socket pair)── worker
//	  ├── task (a process group of its own)
//	  └── task
//
// What the guard holds to:
//   - It starts a command only while the session's renewal deadline has not passed.
//   - A command that is stopped, or ended by itself, is gone only when nothing of it is left. That is its control
//     group, where the guard may make one: see cgroups. It is also its process group, its descendants, and orphans that
//     carry its SHARDCTL_KEY, SHARDCTL_SESSION and SHARDCTL_FENCING_TOKEN in their environment.
//   - At a session's deadline everything of it is killed, whether the worker can still say so or not.
//   - A worker in which tasks still run at a session's X is killed itself. It may be frozen, and go on later.
//   - When the worker dies, all tasks are killed at once. Once they are gone its sessions are marked dead, so that no
//     other replica waits for the lease to run out.
//   - When the guard dies, the worker kills what it can find and exits without marking anything.
//   - What a guard that was killed left in control groups, the next one that starts beside it ends.
//
// What it cannot hold without control groups is a process that hid its environment (env -i) and left its group and
// parent. It is found only at a deadline or when the worker dies, when everything goes. Where there is no subreaper
// (everywhere but on Linux) a task is its process group and nothing else. When guard and worker are killed together
// outside a container, direct children die by a death signal (Linux), grandchildren may live.
//
// Three pure machines decide, each on its own state. leases knows how far each session's lease has run out. table knows
// what runs, and what of it is left. shutdown knows signals, time limits, and the worker's end. They take what happened
// and the time, and return effects. The loop and its parts (inbox, children, marking) carry events to them and do the
// effects; survey attributes processes to commands, and cgroups keeps control groups. The worker's side is Client, and
// Place is the memory of a container across its restarts.
//
// Nothing here blocks on the other process. What is to be sent is queued, and deadlines in the queue are replaced by
// newer ones. A guard that is silent for a quarter of the lease counts as gone.
package guard
