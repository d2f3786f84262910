package snapshot

import (
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

// Owners are the owners of the tasks that have one, as [Cluster.Owner] returns them, with addresses of the cluster.
func Owners(tasks []api.Task, addresses map[string]string) []api.KeyOwner {
	var list []api.KeyOwner
	for i := range tasks {
		if t := &tasks[i]; t.Instance != "" {
			list = append(list, ownerOf(t, addresses[t.Session]))
		}
	}
	return list
}

// Addresses are where instances take requests for their keys, by session.
func (s *Cluster) Addresses() map[string]string {
	addresses := make(map[string]string, len(s.Instances))
	for i := range s.Instances {
		addresses[s.Instances[i].Session] = s.Instances[i].AppAddress
	}
	return addresses
}

func ownerOf(t *api.Task, address string) api.KeyOwner {
	return api.KeyOwner{Key: t.Key, Group: t.Group, Name: t.Name, Owner: t.Owner, Address: address}
}
