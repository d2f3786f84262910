package weights

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

const (
	traceKeys      = 100
	traceInstances = 5
	traceStep      = 30 // seconds, as loads are noted
	traceDay       = 24 * 60 * 60
	traceMinutes   = traceDay / 60
)

// traceNames are those of keys and instances.
var traceNames = func() (names []string) {
	for i := range traceKeys {
		names = append(names, strconv.Itoa(i))
	}
	return names
}()

// trace is a day of loads of a hundred keys. It is the same for the same seed and skew.
type trace struct {
	random *rand.Rand
	base   []float64 // by Zipf's law
	phase  []float64 // of its day
	drift  []float64 // a random walk back to 0
	burst  []int     // until this second
}

func newTrace(seed uint64, skew float64) *trace {
	t := &trace{
		random: rand.New(rand.NewPCG(seed, 7)), drift: make([]float64, traceKeys), burst: make([]int, traceKeys),
	}
	for _, rank := range t.random.Perm(traceKeys) {
		t.base = append(t.base, 100*math.Pow(float64(rank+1), -skew))
		t.phase = append(t.phase, t.random.Float64())
	}
	return t
}

// next is the load of each key in the step at this second. Each has its own day with 40 % more or less and a drift of
// hours. Every seven minutes one is four times as much for one to five minutes. Two are hot: key 17 from 6 to 9 o'clock
// and key 71 from 14 to 18 have as much in addition as an instance has on average for two fifths. Samples have 10 % of
// noise.
func (t *trace) next(second int) []float64 {
	if t.random.Float64() < float64(traceStep)/400 {
		t.burst[t.random.IntN(traceKeys)] = second + 60 + t.random.IntN(240)
	}
	loads := make([]float64, traceKeys)
	for i := range loads {
		const hours = 4 * 60 * 60
		t.drift[i] += -t.drift[i]*traceStep/hours + 0.25*math.Sqrt(2.0*traceStep/hours)*t.random.NormFloat64()
		day := float64(second)/traceDay + t.phase[i]
		load := t.base[i] * (1 + 0.4*math.Sin(2*math.Pi*day)) * math.Exp(t.drift[i])
		if second < t.burst[i] {
			load *= 4
		}
		hour := second / 3600
		if i == 17 && hour >= 6 && hour < 9 || i == 71 && hour >= 14 && hour < 18 {
			load += 60
		}
		loads[i] = load * math.Exp(0.1*t.random.NormFloat64())
	}
	return loads
}

// strategy decides who owns what. It is called at each step, and changes owners.
type strategy interface {
	step(second int, loads []float64, owners []int)
}

// outcome is what came of a day.
type outcome struct {
	uneven []float64 // by minute: the largest load of an instance, in means
	moves  int
}

func (o outcome) within() float64 {
	n := 0
	for _, u := range o.uneven {
		if u <= 1.25 {
			n++
		}
	}
	return 100 * float64(n) / float64(len(o.uneven))
}

// movedAnHour is in percent of the keys.
func (o outcome) movedAnHour() float64 { return 100 * float64(o.moves) / 24 / traceKeys }

func (o outcome) median() float64 {
	sorted := slices.Sorted(slices.Values(o.uneven))
	return sorted[len(sorted)/2]
}

// play lets a day pass. It begins with the keys spread by their number.
func play(t *trace, s strategy) (o outcome) {
	owners := make([]int, traceKeys)
	for i := range owners {
		owners[i] = i % traceInstances
	}
	minute := make([]float64, traceInstances)
	for second := 0; second < traceDay; second += traceStep {
		loads := t.next(second)
		for i, load := range loads {
			minute[owners[i]] += load
		}
		if (second+traceStep)%60 == 0 {
			o.uneven = append(o.uneven, overMean(minute))
			clear(minute)
		}
		before := slices.Clone(owners)
		s.step(second, loads, owners)
		for i := range owners {
			if owners[i] != before[i] {
				o.moves++
			}
		}
	}
	return o
}

func overMean(loads []float64) float64 {
	sum := 0.0
	for _, l := range loads {
		sum += l
	}
	return slices.Max(loads) * float64(len(loads)) / sum
}

// none leaves everything where it is.
type none struct{}

func (none) step(int, []float64, []int) {}

// followed is what replicas do: loads are noted as owners note them, the rules weigh them, and the balancer plans.
type followed struct {
	rules     Rules
	noted     []record.Load
	since     []int64
	published []Entry
	at        int64
	scores    Scores
}

func newFollowed() *followed {
	return &followed{
		rules: Load.Rules(), noted: make([]record.Load, traceKeys), since: make([]int64, traceKeys),
	}
}

func (f *followed) step(second int, loads []float64, owners []int) {
	now := began + int64(second)*1000
	seen := make(map[string]Seen, traceKeys)
	for i, load := range loads {
		if f.noted[i].Differs(load) {
			f.noted[i] = record.Load{Known: true, Value: load}
		}
		seen[traceNames[i]] = Seen{Load: f.noted[i], Owner: traceNames[owners[i]], Since: f.since[i]}
	}
	f.scores = f.rules.Score(f.scores, f.published, seen, now)
	next, changed := f.rules.Next(f.published, f.at, f.scores, now)
	if !changed {
		return
	}
	f.published, f.at = next, now
	before := slices.Clone(owners)
	for range 10 { // until it wants nothing more
		if !f.plan(owners) {
			break
		}
	}
	for i := range owners {
		if owners[i] != before[i] {
			f.since[i] = now
		}
	}
}

// plan moves keys as the balancer wants it, and says whether it wanted anything.
func (f *followed) plan(owners []int) (moved bool) {
	in := balancer.Input{Groups: []balancer.Group{{Name: "g"}}}
	for i := range traceInstances {
		in.Members = append(in.Members, balancer.Member{ID: traceNames[i], Name: traceNames[i]})
	}
	levels := Levels(f.published)
	for i, owner := range owners {
		in.Groups[0].Keys = append(in.Groups[0].Keys, balancer.Key{
			Key: elect.Key(fmt.Sprintf("g/%02d", i)), Owner: traceNames[owner],
			Weight: Load.Weight(1, levels, traceNames[i]),
		})
	}
	for i, owner := range balancer.Balance(in).Groups[0].Owners {
		if to, err := strconv.Atoi(owner); err == nil && to != owners[i] {
			owners[i], moved = to, true
		}
	}
	return moved
}

// greedy looks every so many seconds at loads smoothed over a minute. When an instance has more than the limit, in
// means, it moves its hottest key to the one that has least.
type greedy struct {
	every  int
	limit  float64
	smooth []float64
}

func (g *greedy) step(second int, loads []float64, owners []int) {
	smoothed(&g.smooth, loads)
	owned := make([]float64, traceInstances)
	for i, load := range g.smooth {
		owned[owners[i]] += load
	}
	if second%g.every != 0 || overMean(owned) <= g.limit {
		return
	}
	full, empty := slices.Index(owned, slices.Max(owned)), slices.Index(owned, slices.Min(owned))
	hottest := -1
	for i, owner := range owners {
		if owner == full && (hottest < 0 || g.smooth[i] > g.smooth[hottest]) {
			hottest = i
		}
	}
	owners[hottest] = empty
}

// smoothed follows loads with a time constant of a minute.
func smoothed(values *[]float64, loads []float64) {
	if *values == nil {
		*values = slices.Clone(loads)
	}
	for i, load := range loads {
		(*values)[i] += (load - (*values)[i]) * -math.Expm1(-traceStep/60.0)
	}
}

// packed puts the heaviest key first on the emptiest instance, from nothing, every minute: about the best there is.
type packed struct{ smooth []float64 }

func (p *packed) step(second int, loads []float64, owners []int) {
	smoothed(&p.smooth, loads)
	if second%60 != 0 {
		return
	}
	order := make([]int, traceKeys)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.smooth[b], p.smooth[a]) })
	owned := make([]float64, traceInstances)
	for _, i := range order {
		owners[i] = slices.Index(owned, slices.Min(owned))
		owned[owners[i]] += p.smooth[i]
	}
}
