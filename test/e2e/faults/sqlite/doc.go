// Package sqlite tests what happens to real replicas when their SQLite file is full, locked, deleted, replaced, cut
// off, overwritten or made read-only. It also tests a whole replica that is frozen.
//
// In all of it no replica crashes and no two runs of a key are alive at once. Tasks stop before anyone else may take
// them. The status says that the store is unreachable and why. When the file is back, all run again.
package sqlite
