// Package tasks is the work: what a task is, and how it runs while its key is held.
//
// A [Task] runs a command, calls an HTTP endpoint, or calls a Go function by its name in a [Registry]. A [Supervisor]
// runs it under a [Hold], the lease of its key. It runs for as long as the key is held, or at each tick of a schedule.
// It restarts what ends, with backoff, and stops what has to stop. It returns only when nothing of the work is left, so
// that the key may go on.
//
// # What is promised
//
// Every start has a fencing token of its own, larger than that of any start of the task before it, on any replica. The
// first is that of the claim, and before every other one the lock is advanced. A tick is noted in the lock before it
// runs, so it fires at most once in the cluster. A task with restart: never runs at least once, and once it has ended
// by itself it stays ended.
//
// # What is not
//
// A Go function that ignores its context cannot be ended: its key stays here, and [Alarms.OnStuck] is called. A
// panic in a goroutine that such a function starts takes the process down. Work that a task starts elsewhere,
// processes that leave their process group, and a request that was sent are out of reach. A machine that is frozen
// and thaws may still be working on what another has taken over. What guards against all of these is the token:
// whatever tasks write to should refuse smaller tokens than it has seen.
//
// A [LocalStarter] has no second process that watches over the first: when a service dies by kill -9, grandchildren
// of it live on.
package tasks
