package snapshot

import (
	"maps"
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
)

// Owner is who owns the key of a task, with where requests for it go. false: it has no owner, or is not declared.
// A task has the owner that cluster.View.Owner found. ValidForSeconds is left out: it changes with each heartbeat. What
// was left of the owner's lease when the snapshot was made is in Leases.
func (s *Cluster) Owner(key string) (api.KeyOwner, bool) {
	t := s.Task(key)
	if t == nil || t.Instance == "" {
		return api.KeyOwner{}, false
	}
	at := slices.IndexFunc(s.Instances, func(i api.Instance) bool { return i.Session == t.Session })
	if at < 0 {
		return ownerOf(t, ""), true
	}
	return ownerOf(t, s.Instances[at].AppAddress), true
}

// ListOwners fills Owners from the tasks and the instances of s, as [Cluster.Owner] returns them. It shares the list of
// before, which may be nil, if nothing has changed that the list depends on.
func (s *Cluster) ListOwners(before *Cluster) {
	tasks, addresses := s.Tasks, s.addresses()
	if before != nil && before.Tasks == tasks && maps.Equal(before.addresses(), addresses) {
		s.Owners = before.Owners
		return
	}
	s.Owners = Later(func() (list []api.KeyOwner) {
		all := tasks.All()
		for i := range all {
			if t := &all[i]; t.Instance != "" {
				list = append(list, ownerOf(t, addresses[t.Session]))
			}
		}
		return list
	})
}

// addresses are where instances take requests for their keys, by session.
func (s *Cluster) addresses() map[string]string {
	addresses := make(map[string]string, len(s.Instances))
	for i := range s.Instances {
		addresses[s.Instances[i].Session] = s.Instances[i].AppAddress
	}
	return addresses
}

func ownerOf(t *api.Task, address string) api.KeyOwner {
	return api.KeyOwner{Key: t.Key, Group: t.Group, Name: t.Name, Owner: t.Owner, Address: address}
}
