package status

// Count adds one task in this state to the group's counts. A state that is not known counts as unassigned, so that
// the counts always add up to Tasks.
func (g *Group) Count(state TaskState) {
	g.Tasks++
	*g.counter(state)++
}

// InState is the number of tasks in that state; 0 for a state that is not known.
func (g *Group) InState(state TaskState) int {
	switch state {
	case Waiting, Running, Starting, Stopping, Backoff, Unassigned, Paused, Done, Failed:
		return *g.counter(state)
	default:
		return 0
	}
}

func (g *Group) counter(state TaskState) *int {
	switch state {
	case Waiting:
		return &g.Waiting
	case Running:
		return &g.Running
	case Starting:
		return &g.Starting
	case Stopping:
		return &g.Stopping
	case Backoff:
		return &g.Backoff
	case Paused:
		return &g.Paused
	case Done:
		return &g.Done
	case Failed:
		return &g.Failed
	default:
		return &g.Unassigned
	}
}

// Owned is the number of tasks that take capacity of an instance.
func (g *Group) Owned() int {
	return g.Waiting + g.Running + g.Starting + g.Stopping + g.Backoff
}

// Demand is the number of tasks that want to run: all but those that are paused, done or failed.
func (g *Group) Demand() int { return g.Owned() + g.Unassigned }

// Measure fills Capacity, Headroom and Imbalance. Each offer is one live instance that may own tasks of this group.
// Count the tasks first. Without a cap (any offer unlimited) Capacity and Headroom are nil.
func (g *Group) Measure(offers []Offer) {
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
