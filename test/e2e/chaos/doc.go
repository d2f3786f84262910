// Package chaos injects faults of all kinds into real replicas for as long as asked, and then judges by what the tasks
// recorded alone.
//
//	make chaos SECS=600 SEED=7         ten minutes of the chaos test of seed 7, on both stores
//	make chaos                         ten minutes of a random seed
//	go test -v ./test/e2e/chaos        what CI runs: 40 seconds of a fixed seed, then of a random one
//	go test -v ./test/e2e/chaos -chaos.store=sqlite -chaos.seed=1,2,3 -chaos.secs=60
//
// Five replicas (up to seven) share commands, some of which fork and some of which ignore SIGTERM, and tasks that call
// an HTTP endpoint. Beside each runs an application, in Python, that its replica starts and that has keys of its own. A
// schedule, a pure function of the seed, kills, stops and thaws their processes, and applications alone. It edits their
// configuration and their documents, and takes the store away in every way. A supervisor starts again what has ended,
// as Kubernetes or systemd would.
//
// What must hold all the time: never two runs of a key at once, never two valid remote leases of one. Tokens strictly
// increase. No replica ends but those that a fault has hit: not when its application is killed or frozen. Once the
// faults stop: every key runs exactly once, spread evenly; and after an orderly end no process is left. What no lease
// can promise is taken out as exactly as it can be reported, counted, and printed:
//
//   - a replica frozen whole, its tasks too, and thawed later: its old runs in the moment until its guard acts;
//   - a lock deleted manually under its owner: up to T/2;
//   - a replica that ends because the machine stood still (this process could not wake up in time): a guard silent for
//     T/4 counts as gone;
//   - guard and worker killed together outside a container: grandchildren live on, until the chaos test kills them.
//     systemd with KillMode=control-group or the end of a container's PID 1 would do the same.
//
// Without Python there are no applications: see newApplications.
//
// The schedule repeats exactly, real processes do not: a seed that failed once may pass at the next try, and is worth
// several.
package chaos
