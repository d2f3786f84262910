// Package discovery publishes what a group's discover finds, and reads what was published.
//
// One replica looks, under a lock for each group, whose token its writes carry. A list is cut into chunks. The group's
// head has the revision of the list and a hash of each chunk. Chunks are written first and the head last, by
// compare-and-set. So a reader sees the whole of one list or of the next, and a looker that was overtaken publishes
// nothing.
//
// Heads and chunks are documents of kind value. Their IDs begin with "~discovery/", as no key does:
//
//	~discovery/GROUP        the head
//	~discovery/GROUP/P-N    chunk N of a list whose revision has the parity P, 0 or 1
//
// A new list is written over the one before the last, so nothing has to be deleted. A reader that comes too late for a
// list finds chunks with other hashes, and reads the head again.
//
// Nothing vanishes because it could not be asked for. A look that fails changes no list, and what a look does not find
// stays for the grace.
package discovery
