package engine

import (
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// readQueue has the documents to be read together: what one event asks for goes out in few requests.
type readQueue struct {
	sender  *sender
	cache   SharedCache
	held    *Keys
	table   *Mutexes
	auditor *auditor
	moment  func() protocol.Moment

	keys     []keyRead
	mutexes  []string
	suspects []record.Key
	// named are locks that notifications have named without showing them, as those of Redis and of a quorum do. Many
	// are reserved at once when a replica leaves. They cost one request at a time, where a look at all that has changed
	// takes several, one after the other.
	named     []string
	readNamed bool // some of these are being read
}

// flush sends the reads that have been gathered.
func (rs *readQueue) flush() {
	keys, mutexes, suspects := rs.keys, rs.mutexes, rs.suspects
	rs.keys, rs.mutexes, rs.suspects = nil, nil, nil
	for batch := range slices.Chunk(keys, driver.MaxBatch) {
		rs.sender.readKeys(batch, func(f keyFound) { rs.held.found(f, rs.moment()) })
	}
	slices.Sort(mutexes)
	for batch := range slices.Chunk(mutexes, driver.MaxBatch) {
		rs.readMutexes(batch)
	}
	slices.Sort(suspects)
	for batch := range slices.Chunk(suspects, driver.MaxBatch) {
		rs.auditor.readSuspects(batch)
	}
	if len(rs.named) > 0 && !rs.readNamed {
		rs.readLocks()
	}
}

// readMutexes reads mutexes, with the high-water mark of deleted ones where one is absent.
func (rs *readQueue) readMutexes(ids []string) {
	r := ReadRequest{Kind: driver.KindMutex, IDs: ids, Counters: []string{record.GroupMutexes}}
	rs.sender.read(r, func(a Answer) {
		m := rs.moment()
		for i, id := range ids {
			f := mutexFound{ID: id, Err: a.Err, Mark: a.Marks[record.GroupMutexes]}
			if a.Err == nil && a.Mutexes[i] != nil {
				f.Doc = *a.Mutexes[i]
			}
			rs.table.found(f, m)
		}
	})
}

// readLocks reads the locks that were named since the last request. What cannot be read is looked for.
func (rs *readQueue) readLocks() {
	all := slices.Compact(slices.Sorted(slices.Values(rs.named)))
	ids := all[:min(len(all), driver.MaxBatch)]
	rs.named, rs.readNamed = all[len(ids):], true
	rs.sender.read(ReadRequest{Kind: driver.KindLock, IDs: ids}, func(a Answer) {
		rs.readNamed = false
		for _, lock := range a.Locks {
			if a.Err == nil && lock != nil {
				rs.cache.Put(lock)
			} else {
				rs.cache.Look()
			}
		}
	})
}
