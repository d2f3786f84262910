package leases

import "github.com/shardctl/shardctl/pkg/elect/record"

// Limits bound what this process owns.
type Limits struct {
	Caps     map[string]int // most keys of a group; a group left out has no cap
	MaxTasks int            // most keys of all groups; 0: no limit
}

// quota counts keys that are not free against the limits; those of chores are no tasks.
type quota struct {
	limits Limits
	owned  map[string]int // by group
	all    int
}

// full says whether a limit forbids another key of the group.
func (q *quota) full(group string) bool {
	limit, ok := q.limits.Caps[group]
	return ok && q.owned[group] >= limit || q.limits.MaxTasks > 0 && q.all >= q.limits.MaxTasks
}

func (q *quota) claimed(group string) {
	if record.Key(group).Chore() {
		return
	}
	q.owned[group]++
	q.all++
}

func (q *quota) freed(group string) {
	if record.Key(group).Chore() {
		return
	}
	q.all--
	if q.owned[group]--; q.owned[group] == 0 {
		delete(q.owned, group)
	}
}
