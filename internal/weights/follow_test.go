package weights

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/test/suites"
)

// weak are rules less one of their parts, by what is left out.
func weak(without string) Rules {
	r := Lag.Rules()
	switch without {
	case "wait":
		r.Wait, r.MaxWait = 0, 0
	case "doubling":
		r.MaxWait = r.Wait
	case "smoothing":
		r.Smooth = time.Second
	case "hold":
		r.Hold = 0
	}
	return r
}

// uneven is a cluster whose replicas may have all but one topic, which is more than its replica can do beside
// four others.
func uneven(r Rules) *sim {
	s := newSim()
	s.rules, s.capacity, s.rate = r, 200, hot(170)
	return s
}

// A hot topic ends where it has capacity, is not behind any more, and moves cost no other topic much.
func TestAHotTopicGetsAQuieterReplica(t *testing.T) {
	s := uneven(Lag.Rules())
	s.run(time.Second)
	if n := s.beside("t07"); n != 4 {
		t.Fatalf("at first it has %d neighbours", n)
	}
	s.run(40 * time.Minute)
	if n, behind := s.beside("t07"), s.topics["t07"].backlog; n > 1 || behind > 500 {
		t.Errorf("after 40 minutes it has %d neighbours, and is %.0f messages behind", n, behind)
	}
	if s.level("t07") != MaxLevel || s.moves > 6 {
		t.Errorf("level %d, %d moves", s.level("t07"), s.moves)
	}
}

// A constant load that lags wherever the hot topic has neighbours: moves get rarer. Without the wait, or without its
// doubling, the topic's neighbours come and go for ever.
func TestNothingPingPongsUnderAConstantLoad(t *testing.T) {
	day := func(r Rules) (first, second int) {
		s := uneven(r)
		s.run(12 * time.Hour)
		first = s.moves
		s.run(12 * time.Hour)
		return first, s.moves - first
	}
	for _, test := range []struct {
		without     string
		least, most int // moves in the second half of the day
	}{{"nothing", 0, 6}, {"doubling", 30, 60}, {"wait", 150, 400}} {
		if test.without != "nothing" && !suites.Chosen(t, suites.Models) {
			continue
		}
		first, second := day(weak(test.without))
		t.Logf("without %s: %d moves in twelve hours, %d in the next", test.without, first, second)
		if second < test.least || second > test.most {
			t.Errorf("without %s: %d moves in the second half, want %d to %d", test.without, second, test.least,
				test.most)
		}
	}
}

// Bursts of seconds, each at another topic, move nothing. Without smoothing they do.
func TestNoiseMovesNothing(t *testing.T) {
	bursts := func(r Rules) *sim {
		s, random := newSim(), rand.New(rand.NewPCG(1, 2))
		s.rules, s.capacity = r, 1000
		until, who := 0, ""
		s.rate = func(name string, second int) float64 {
			if second >= until {
				until, who = second+5+random.IntN(10), fmt.Sprintf("t%02d", random.IntN(20))
			}
			if name == who {
				return float64(random.IntN(1500))
			}
			return float64(random.IntN(50))
		}
		s.run(6 * time.Hour)
		return s
	}
	if s := bursts(Lag.Rules()); s.moves != 0 || len(s.at) != 0 {
		t.Errorf("%d moves, %d publications", s.moves, len(s.at))
	}
	if s := bursts(weak("smoothing")); s.moves < 10 {
		t.Errorf("without smoothing there are %d moves: the bursts show nothing", s.moves)
	}
}

// Replicas come and go, and each topic that moves stands still for so long that it is far behind. That raises no
// weight: only what the membership asks for moves. Without the hold more does.
func TestAMoveCausesNoMove(t *testing.T) {
	changes := func(r Rules) *sim {
		s := newSim()
		s.rules, s.capacity, s.pause = r, 5500, 20
		s.rate = func(string, int) float64 { return 1000 }
		s.run(time.Hour) // the first claims are changes of hands as well
		s.joins("r4")
		s.run(time.Hour)
		s.leaves("r0")
		s.run(4 * time.Hour)
		return s
	}
	s := changes(Lag.Rules())
	if s.moves != 4+4 || len(s.at) != 0 {
		t.Errorf("%d moves, %d publications: want four to the one that came, and four from the one that left",
			s.moves, len(s.at))
	}
	if s := changes(weak("hold")); s.moves <= 4+4 {
		t.Errorf("without the hold there are %d moves: they show nothing", s.moves)
	}
}

// A topic that is hot for an hour gets capacity for that hour, and all is as before some hours later.
func TestAStepPasses(t *testing.T) {
	s := uneven(Lag.Rules())
	s.rate = func(name string, second int) float64 {
		if over := second > 3600; over {
			return 25
		}
		return hot(170)(name, second)
	}
	s.run(time.Hour)
	if s.level("t07") == 0 {
		t.Error("it has no weight of its own after an hour")
	}
	s.run(6 * time.Hour)
	before, written := s.moves, len(s.at)
	for name := range s.topics {
		if s.level(name) != 0 || s.beside(name) != 4 {
			t.Errorf("six hours later %s has level %d and %d neighbours", name, s.level(name), s.beside(name))
		}
	}
	s.run(6 * time.Hour)
	if s.moves != before || len(s.at) != written {
		t.Errorf("%d moves and %d publications after all was over", s.moves-before, len(s.at)-written)
	}
}

// All replicas are too slow: every topic is behind, all weigh the same, and nothing moves for long.
func TestATooSmallClusterComesToRest(t *testing.T) {
	s := newSim()
	s.capacity, s.rate = 100, hot(60)
	s.run(2 * time.Hour)
	before := s.moves
	s.run(4 * time.Hour)
	if s.moves != before {
		t.Errorf("%d moves after two hours", s.moves-before)
	}
}

// A cap counts tasks, whatever they weigh: a rising weight leaves no task without a place, and passes no cap.
func TestAWeightLeavesNoTaskWithoutAPlace(t *testing.T) {
	s := uneven(Lag.Rules())
	s.cap = 5 // four replicas may have twenty, and no more
	for range 60 {
		s.run(time.Minute)
		s.noneWithoutPlace(t)
	}
	if s.level("t07") != MaxLevel || s.moves > 8 {
		t.Errorf("level %d, %d moves", s.level("t07"), s.moves)
	}
	s.cap, s.due = 8, true
	s.run(time.Hour)
	s.noneWithoutPlace(t)
	if n := s.beside("t07"); n > 1 {
		t.Errorf("with free capacity it has %d neighbours", n)
	}
}

func (s *sim) noneWithoutPlace(t *testing.T) {
	t.Helper()
	if left := balancer.Balance(s.input()).Unassigned; len(left) > 0 {
		t.Fatalf("at %d s without a place: %v", s.second, left)
	}
	owned := map[string]int{}
	for _, topic := range s.topics {
		if owned[topic.owner]++; owned[topic.owner] > s.cap {
			t.Fatalf("at %d s %s has more than its cap", s.second, topic.owner)
		}
	}
}
