package status

import (
	"github.com/shardctl/shardctl/pkg/api"
)

// Measure fills Capacity, Headroom and Imbalance of a group. Each offer is one live instance that may own tasks of this
// group. Count the tasks first. Without a cap (any offer unlimited) Capacity and Headroom are nil.
func Measure(g *api.Group, offers []Offer) {
	g.Capacity, g.Headroom, g.Imbalance = nil, nil, Imbalance(offers)
	capacity, largest := 0, 0
	for _, p := range offers {
		if p.Cap < 0 {
			return
		}
		capacity += p.Cap
		largest = max(largest, p.Cap)
	}
	if len(offers) == 0 && g.Cap == nil {
		return
	}
	headroom := capacity - largest - g.Demand()
	g.Capacity, g.Headroom = &capacity, &headroom
}

// Offer is what one live instance offers a group.
type Offer struct {
	// most tasks of the group that it may own, its maxTasks less what it owns elsewhere included; below 0: no limit
	Cap   int
	Owned int // tasks of the group that it owns
}

// Imbalance is the most that one of them owns less the fewest, not counting those that are below the most only because
// they are full.
func Imbalance(offers []Offer) int {
	most, fewest := 0, -1
	for _, p := range offers {
		most = max(most, p.Owned)
	}
	for _, p := range offers {
		full := p.Cap >= 0 && p.Owned >= p.Cap
		if full && p.Owned < most {
			continue
		}
		if fewest < 0 || p.Owned < fewest {
			fewest = p.Owned
		}
	}
	if fewest < 0 {
		return 0
	}
	return most - fewest
}
