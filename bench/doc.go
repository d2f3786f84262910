// Command bench measures what one machine can show of the figures that shardctl promises, and prints each as one line.
//
// Figures of processes (failover, hand-over, memory) are taken from real replicas, guard and worker, whose tasks write
// the time into files. Figures of many members (scale-out, cold start, idle traffic) run electors and balancer loops in
// this process. Each has a store client of its own, and callbacks as work. The database is a real MongoDB of three
// nodes on the loopback interface, found as package testmongo says.
//
// Linux only, like the harness that it stands on.
package main
