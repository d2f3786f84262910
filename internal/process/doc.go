// Package process starts, finds, signals and reaps processes. The guard and pkg/tasks both build on it, so that there
// is one answer to each of these questions.
//
// A command is started as a process group of its own, from a [Thread] that lives as long as its [Spawner]. On Linux it
// dies with that thread (PR_SET_PDEATHSIG), and a subreaper gets its orphans. Signals go through pidfds, which never
// reach a process that merely has the same number. Elsewhere a command is its process group and nothing else can be
// found.
package process
