package weights

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// sim has replicas work on topics, and moves the topics by the plan of the real balancer. A replica's capacity is
// shared by its topics: each gets as much as any other, and what one does not need goes to the rest (max-min
// fairness).
type sim struct {
	rules    Rules
	capacity float64                                // messages a second that a replica works on
	rate     func(topic string, second int) float64 // messages a second that arrive
	cap      int                                    // most topics of a replica; 0: any number
	pause    int                                    // seconds that a topic stands still when it moves

	members   []balancer.Member
	topics    map[string]*topic
	names     []string // of the topics, in order
	published []Entry
	at        []int64 // of all publications
	scores    Scores

	second int
	moves  int  // topics that moved, since the start
	due    bool // the balancer has something new to plan with
}

type topic struct {
	owner   string
	since   int64 // when it changed hands
	stands  int   // until this second it does nothing
	backlog float64
}

// newSim has four replicas, and twenty topics named t00, t01 and so on.
func newSim() *sim {
	s := &sim{rules: Lag.Rules(), pause: 1, topics: map[string]*topic{}}
	for i := range 4 {
		s.members = append(s.members, balancer.Member{ID: fmt.Sprintf("r%d", i), Name: fmt.Sprintf("r%d", i)})
	}
	for i := range 20 {
		s.topics[fmt.Sprintf("t%02d", i)] = &topic{}
	}
	s.names, s.due = slices.Sorted(maps.Keys(s.topics)), true
	return s
}

// now is the store's clock.
func (s *sim) now() int64 { return 1_700_000_000_000 + int64(s.second)*1000 }

// run lets d pass.
func (s *sim) run(d time.Duration) {
	for range int(d.Seconds()) {
		if s.due {
			s.balance()
		}
		s.work()
		if s.second%int(s.rules.Look.Seconds()) == 0 {
			s.look()
		}
		s.second++
	}
}

// balance moves topics to where the balancer wants them, until it wants nothing more.
func (s *sim) balance() {
	s.due = false
	for i, owner := range balancer.Balance(s.input()).Groups[0].Owners {
		t := s.topics[s.names[i]]
		if t.owner == owner {
			continue
		}
		if t.owner != "" {
			s.moves++
		}
		t.owner, t.since, t.stands = owner, s.now(), s.second+s.pause
		s.due = true
	}
}

func (s *sim) input() balancer.Input {
	levels := Levels(s.published)
	g := balancer.Group{Name: "g"}
	for _, name := range s.names {
		g.Keys = append(g.Keys, balancer.Key{
			Key: elect.Key("g/" + name), Weight: Factor(levels[name]), Owner: s.topics[name].owner,
		})
	}
	members := slices.Clone(s.members)
	for i := range members {
		if s.cap > 0 {
			members[i].Caps = map[string]int{"g": s.cap}
		}
	}
	return balancer.Input{Members: members, Groups: []balancer.Group{g}}
}

// work lets a second of messages arrive, and each replica work for a second.
func (s *sim) work() {
	for _, name := range s.names {
		s.topics[name].backlog += s.rate(name, s.second)
	}
	for _, m := range s.members {
		var waits []*topic
		for _, name := range s.names {
			if t := s.topics[name]; t.owner == m.ID && t.stands <= s.second {
				waits = append(waits, t)
			}
		}
		slices.SortStableFunc(waits, func(a, b *topic) int { return int(min(max(a.backlog-b.backlog, -1), 1)) })
		free := s.capacity
		for i, t := range waits {
			done := min(t.backlog, free/float64(len(waits)-i))
			t.backlog -= done
			free -= done
		}
	}
}

// look does what the follower of the group does.
func (s *sim) look() {
	seen := map[string]Seen{}
	for name, t := range s.topics {
		seen[name] = Seen{Lag: record.Lag{Known: true, Messages: int64(t.backlog), Seconds: -1}, Since: t.since}
	}
	s.scores = s.rules.Score(s.scores, s.published, seen, s.now())
	last := int64(0)
	if n := len(s.at); n > 0 {
		last = s.at[n-1]
	}
	if next, changed := s.rules.Next(s.published, last, s.scores, s.now()); changed {
		s.published, s.at, s.due = next, append(s.at, s.now()), true
	}
}

// joins and leaves change the membership. What a replica had that leaves goes elsewhere.
func (s *sim) joins(name string) {
	s.members, s.due = append(s.members, balancer.Member{ID: name, Name: name}), true
}

func (s *sim) leaves(name string) {
	s.members = slices.DeleteFunc(s.members, func(m balancer.Member) bool { return m.ID == name })
	s.due = true
}

// beside counts the topics that the owner of this one has as well.
func (s *sim) beside(name string) int {
	n := 0
	for _, t := range s.topics {
		if t.owner == s.topics[name].owner {
			n++
		}
	}
	return n - 1
}

func (s *sim) level(name string) int { return Levels(s.published)[name] }

// hot is a rate of 25 for all, and of so much for t07.
func hot(rate float64) func(string, int) float64 {
	return func(name string, _ int) float64 {
		if name == "t07" {
			return rate
		}
		return 25
	}
}
