package status

import (
	"maps"
	"sync"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// ownerLists makes the owners of a snapshot from its tasks and instances. It keeps the newest list: snapshots share
// their tasks while nothing changes.
type ownerLists struct {
	mu        sync.Mutex
	tasks     []api.Task
	addresses map[string]string // by session
	list      []api.KeyOwner
}

func (l *ownerLists) of(s *snapshot.Cluster) []api.KeyOwner {
	addresses := make(map[string]string, len(s.Instances))
	for i := range s.Instances {
		addresses[s.Instances[i].Session] = s.Instances[i].AppAddress
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	shared := len(l.tasks) == len(s.Tasks) && (len(s.Tasks) == 0 || &l.tasks[0] == &s.Tasks[0])
	if !shared || !maps.Equal(addresses, l.addresses) {
		l.tasks, l.addresses, l.list = s.Tasks, addresses, ownersOf(s.Tasks, addresses)
	}
	return l.list
}

func ownersOf(tasks []api.Task, addresses map[string]string) []api.KeyOwner {
	var list []api.KeyOwner
	for i := range tasks {
		if t := &tasks[i]; t.Instance != "" {
			list = append(list, api.KeyOwner{
				Key: t.Key, Group: t.Group, Name: t.Name, Owner: t.Owner, Address: addresses[t.Session],
			})
		}
	}
	return list
}

// ownerCollection is the list of owners. What is left of a lease is as of when it is shown.
func ownerCollection(source Source) collection[api.KeyOwner] {
	lists := &ownerLists{}
	return collection[api.KeyOwner]{
		path:   "/api/v1/owners",
		params: []string{"group", "instance", "q"},
		items:  lists.of,
		id:     func(o *api.KeyOwner) string { return o.Key },
		match: func(q *query, o *api.KeyOwner) bool {
			return q.inGroup(o.Group) && q.onInstance(o.Instance) && q.has(o.Key, o.Instance, o.Address)
		},
		shown: func(o *api.KeyOwner, _ bool) *api.KeyOwner {
			shown := *o
			shown.ValidForSeconds = source.Snapshot().Leases[o.Session].Seconds()
			return &shown
		},
		same: func(a, b *api.KeyOwner) bool { return *a == *b },
	}
}
