// Package dev is `shardctl dev`: a cluster to play with on one machine. It starts real replica processes on a SQLite
// file of their own, and serves the page of any of them that lives. On a terminal, keys kill, stop and add replicas.
//
// Everything it makes is in a temporary directory and in processes that it ends again, on every way out. Only when dev
// itself is killed by SIGKILL does the directory stay; on Linux the replicas die with it, elsewhere they stay as well.
//
// The command line's live view shows the cluster, and follows the page as any browser does. To that dev adds what it
// alone knows: process ids, why a process ended, and what keys do.
package dev
