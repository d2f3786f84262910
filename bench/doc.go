// Command bench measures what one machine can show of the figures that shardctl promises, and prints each as one line.
//
// Figures are taken from real replicas, guard and worker, whose tasks write the time into files. The database is a real
// MongoDB of three nodes on the loopback interface, found as package testmongo says.
//
// Linux only, like the harness that it stands on.
package main
