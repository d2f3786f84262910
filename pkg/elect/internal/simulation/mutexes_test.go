package simulation

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// mutex is a mutex, read-write lock or semaphore that some replicas use. It never changes.
type mutex struct {
	id    string
	at    int32
	ask   protocol.MutexRequest // what all its calls ask for
	users []*replica
}

const (
	usersEach   = 3 // replicas for each mutex,
	mutexesEach = 2 // and mutexes of each replica: one has the double number of users
)

// newMutexes gives each replica some, of all kinds in turn.
func newMutexes(replicas []*replica) map[string]*mutex {
	kinds := []protocol.MutexRequest{{Limit: 1}, {Limit: 0}, {Limit: 1, Unfair: true}, {Limit: 2}}
	all := make([]*mutex, max(1, len(replicas)/usersEach))
	byID := map[string]*mutex{}
	for i := range all {
		all[i] = &mutex{id: record.MutexID(fmt.Sprintf("m%04d", i)), at: int32(i), ask: kinds[i%len(kinds)]}
		byID[all[i].id] = all[i]
	}
	for i, r := range replicas {
		for j := range min(mutexesEach, len(all)) {
			m := all[(i/usersEach+j)%len(all)]
			m.users, r.mutexes = append(m.users, r), append(r.mutexes, m)
		}
	}
	return byID
}

// putMutex changes a mutex. wrote says that it is another than before.
func (d *documents) putMutex(c *driver.Change) (out driver.Outcome, wrote bool) {
	found := d.mutexes[c.Doc.ID]
	write, status := compare(c, &found)
	if !write && !d.blindMutexes {
		return driver.Outcome{Status: status}, false
	}
	d.mutexes[c.Doc.ID] = c.Doc
	return driver.Outcome{Status: driver.Applied}, true
}

// mutex is a mutex as it is now; nil: it is absent.
func (d *documents) mutex(id string) *protocol.MutexDoc {
	doc, ok := d.mutexes[id]
	if !ok {
		return nil
	}
	is, _ := record.MutexFrom(doc) // made by a node
	return &is
}

// mutexLanded is a change of a mutex at the store. Its users are notified some time later. Others would not look at it.
func (w *world) mutexLanded(id string) {
	m, is := w.mutexes[id], w.store.mutex(id)
	w.note(noteMutex, m.at, int32(len(is.Queue)), is.Rev)
	for _, r := range m.users {
		if r.up {
			r.watch.notify(
				engine.Notification{Kind: driver.KindMutex, ID: id, Mutex: is}, r.link.loses(w) || w.store.down,
			)
		}
	}
}
