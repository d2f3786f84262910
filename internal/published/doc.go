// Package published keeps a list of a group in the store, which one replica writes and all read.
//
// The replica that writes holds a lock of the group, whose token its writes carry. A list is cut into chunks. The head
// has the revision of the list and a hash of each chunk. Chunks are written first and the head last, by
// compare-and-set. So a reader sees the whole of one list or of the next, and a writer that was overtaken publishes
// nothing.
//
// Heads and chunks are documents of kind value. Their IDs begin with a space such as "~discovery", as no key does:
//
//	SPACE/GROUP        the head
//	SPACE/GROUP/P-N    chunk N of a list whose revision has the parity P, 0 or 1
//
// A new list is written over the one before the last, so nothing has to be deleted. A reader that comes too late for a
// list finds chunks with other hashes, and reads the head again.
package published
