package status

import (
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// ownerLists makes the owners of a snapshot from its tasks and instances. It keeps the newest list: snapshots share
// their tasks while nothing changes.
type ownerLists struct {
	mu        sync.Mutex
	tasks     snapshot.List[api.Task]
	addresses map[string]string // by session
	list      []api.KeyOwner
}

func (l *ownerLists) of(s *snapshot.Cluster) []api.KeyOwner {
	addresses := s.Addresses()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks != s.Tasks || !maps.Equal(addresses, l.addresses) {
		l.tasks, l.addresses, l.list = s.Tasks, addresses, snapshot.Owners(s.Tasks.All(), addresses)
	}
	return l.list
}

// ownerCollection is the list of owners. What is left of a lease is as of when it is shown.
func ownerCollection(source snapshot.Source) collection[api.KeyOwner] {
	lists := &ownerLists{}
	return collection[api.KeyOwner]{
		path:   "/api/v1/owners",
		params: []string{"group", "instance", "for", "q"},
		items:  lists.of,
		id:     func(o *api.KeyOwner) string { return o.Key },
		match: func(q *query, o *api.KeyOwner) bool {
			return q.inGroup(o.Group) && q.onInstance(o.Instance) && (q.task == "" || q.task == o.Key) &&
				q.has(o.Key, o.Instance, o.Address)
		},
		shown: func(o *api.KeyOwner, _ bool) *api.KeyOwner {
			shown := *o
			shown.ValidForSeconds = source.Snapshot().Leases[o.Session].Seconds()
			return &shown
		},
		same: func(a, b *api.KeyOwner) bool { return *a == *b },
	}
}

// listOwners is list, of the slot of a key where that is asked for.
func (s *server) listOwners(w http.ResponseWriter, r *http.Request) *web.Error {
	q, bad := s.query(r, s.owners.list.path, s.owners.list.params, nil)
	if bad != nil {
		return bad
	}
	if q.slotOf != "" {
		snapshot, bad := s.snapshot()
		if bad != nil {
			return bad
		}
		if q.task, bad = slotTask(snapshot, q.groups, q.slotOf); bad != nil {
			return bad
		}
	}
	return answerList(s, s.owners, w, r, &q)
}

// slotTask is the task that is the slot of a key in the only group.
func slotTask(s *snapshot.Cluster, groups []string, key string) (string, *web.Error) {
	if len(groups) != 1 {
		return "", web.Invalid(api.FieldError{Field: "for", Message: "goes with one group, which has slots"})
	}
	group := groups[0]
	if g := s.Group(group); g != nil && g.Slots > 0 {
		return tasks.SlotKey(group, key, g.Slots), nil
	}
	return "", web.Invalid(api.FieldError{Field: "for", Message: fmt.Sprintf("group %q has no slots", group)})
}
