// Package dev is `shardctl dev`: a cluster to play with on one machine. It starts real replica processes on a SQLite
// file of their own, and serves the page of any of them that lives. It shows on a terminal who owns how many tasks, and
// kills, stops and adds replicas at the press of a key.
//
// Everything it makes is in a temporary directory and in processes that it ends again, on every way out. Only when dev
// itself is killed by SIGKILL does the directory stay; on Linux the replicas die with it, elsewhere they stay as well.
//
// Processes are in cluster.go, and what is known of them is a View. The rest are pure functions of it: the screen, and
// the lines that say what changed.
package dev
