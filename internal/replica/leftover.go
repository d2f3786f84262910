package replica

import (
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// leftOver says why keys are unassigned.
type leftOver map[elect.Key]balancer.Refusal

// count counts a group's keys that are unassigned for this reason.
func (l leftOver) count(group, reason string) int {
	n := 0
	for key, why := range l {
		if key.Group() == group && why.Reason == reason {
			n++
		}
	}
	return n
}

// words is what one of a group's keys that are unassigned for this reason is said.
func (l leftOver) words(group, reason string) string {
	first := balancer.Refusal{}
	for key, why := range l {
		if key.Group() == group && why.Reason == reason && (first.Key == "" || key < first.Key) {
			first = why
		}
	}
	return first.Message
}
