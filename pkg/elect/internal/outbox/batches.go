package outbox

import (
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// inFlight is how many batches are under way at once. A database answers one batch of many sooner than many of one.
const inFlight = 4

// Batches gathers the writes of keys. Whatever has come up while the batches before were under way goes out
// together. Changes of ownership go before reports, which are for people. The zero value is empty.
type Batches struct {
	owners, reports []record.Key
	flying          int  // batches under way
	reporting       bool // one of them is of reports
}

// Batch is a list of keys whose writes go out together.
type Batch struct {
	Keys   []record.Key
	Report bool
}

// Add puts a key's write into the queue.
func (b *Batches) Add(key record.Key, report bool) {
	if report {
		b.reports = append(b.reports, key)
	} else {
		b.owners = append(b.owners, key)
	}
}

// Owners is how many changes of ownership wait.
func (b *Batches) Owners() int { return len(b.owners) }

// Next takes the next batch out of the queue; ok is false when nothing may be sent now. The batch counts as under
// way until Done.
func (b *Batches) Next() (batch Batch, ok bool) {
	from := &b.owners
	if len(b.owners) == 0 {
		from = &b.reports
		batch.Report = true
	}
	// One batch of reports at a time: a release may wait for one of them.
	if b.flying >= inFlight || len(*from) == 0 || batch.Report && b.reporting {
		return Batch{}, false
	}
	n := min(len(*from), store.MaxBatch)
	batch.Keys = (*from)[:n:n]
	*from = (*from)[n:]
	b.flying++
	b.reporting = b.reporting || batch.Report
	return batch, true
}

// Done says that a batch is not under way any more.
func (b *Batches) Done(batch Batch) {
	b.flying--
	b.reporting = b.reporting && !batch.Report
}
