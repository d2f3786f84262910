// Package sqlite tests what happens to real replicas when their SQLite file is full, locked, deleted, replaced, cut
// off, overwritten or made read-only, or when a whole replica is frozen.
//
// In all of it no one crashes, no two runs of a key are alive at once, tasks stop before anyone else may take them, and
// the status says that the store is unreachable and why. When the file is back, all run again.
package sqlite
