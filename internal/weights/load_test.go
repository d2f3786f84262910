package weights

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/record"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
	"github.com/shardctl/shardctl/test/suites"
)

var write = flag.Bool("write", false, "write what docs/load.md shows of the traces")

// strategies are those that docs/load.md compares.
var strategies = []struct {
	name string
	make func() strategy
}{
	{"`weightFrom`", func() strategy { return newFollowed() }},
	{"greedy, each minute above 1.25", func() strategy { return &greedy{every: 60, limit: 1.25} }},
	{"greedy, each 5 minutes above 1.15", func() strategy { return &greedy{every: 300, limit: 1.15} }},
	{"none", func() strategy { return none{} }},
	{"packed again each minute", func() strategy { return &packed{} }},
}

const (
	tracePage = "../../docs/load.md"
	tracePlot = "../../docs/img/load.svg"
	theSkew   = 0.7
	theSeed   = 1
)

// The goal: an instance has at most 1.25 times the mean for 95 % of a day, and at most 2 % of the keys move an hour.
func TestADayOfLoads(t *testing.T) {
	o := play(newTrace(theSeed, theSkew), newFollowed())
	if o.within() < 95 || o.movedAnHour() > 2 {
		t.Errorf("within 1.25 of the mean for %.1f %% of the day, %.2f %% of the keys moved an hour", o.within(),
			o.movedAnHour())
	}
}

// docs/load.md shows what came of the traces.
func TestThePageShowsTheTraces(t *testing.T) {
	suites.Need(t, suites.Models, "twenty days of loads")
	var lines [][]float64
	table := fmt.Sprintf("| %s | %s |\n|---|%s|\n", "", "within 1.25, moved an hour | median | worst", "---|---|---")
	for _, s := range strategies {
		o := play(newTrace(theSeed, theSkew), s.make())
		table += fmt.Sprintf("| %s | %.1f %%, %.1f %% | %.2f | %.2f |\n", s.name, o.within(), o.movedAnHour(),
			o.median(), slices.Max(o.uneven))
		lines = append(lines, o.uneven)
	}
	table += "\n" + skews(t)
	shown, err := os.ReadFile(tracePage)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- traces -->\n\n", "\n<!-- end of traces -->"
	before, rest, ok := strings.Cut(string(shown), from)
	old, after, ended := strings.Cut(rest, to)
	if !ok || !ended {
		t.Fatalf("%s has no place for the traces", tracePage)
	}
	plot := plotOf(lines[0], lines[1], lines[3])
	if runtime.GOARCH != "amd64" {
		return // others round differently
	}
	if *write {
		if err := os.WriteFile(tracePage, []byte(before+from+table+to+after), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tracePlot, plot, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Errorf("%s shows other numbers, write them with -write:\n%s", tracePage, table)
	}
	if drawn, err := os.ReadFile(tracePlot); err != nil || !bytes.Equal(drawn, plot) {
		t.Errorf("%s is another plot, write it with -write: %v", tracePlot, err)
	}
}

// skews are the same days with other skews, three of each, and the worst of them.
func skews(t *testing.T) string {
	t.Helper()
	const days = 3
	table := "| Zipf exponent | `weightFrom` | greedy, each 5 minutes above 1.15 | packed again each minute |\n" +
		"|---|---|---|---|\n"
	for _, skew := range []float64{0.6, 0.7, 0.8} {
		table += fmt.Sprintf("| %.1f", skew)
		for _, of := range []int{0, 2, 4} {
			least, most := 100.0, 0.0
			for seed := range uint64(days) {
				o := play(newTrace(seed+1, skew), strategies[of].make())
				least, most = min(least, o.within()), max(most, o.movedAnHour())
			}
			table += fmt.Sprintf(" | %.1f %%, %.1f %%", least, most)
		}
		table += " |\n"
	}
	t.Log("\n" + table)
	return table
}

// plotOf draws lines of a day, by minute, as the worst of each ten minutes.
func plotOf(ours, greedy, none []float64) []byte {
	const width, height, top, mean = 860, 300, 3.0, 1.0
	y := func(v float64) float64 { return 10 + (height-40)*(top-min(v, top))/(top-mean) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`,
		width, height)
	fmt.Fprintf(&b, "\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height)
	for _, v := range []float64{1, 1.25, 2, 3} {
		fmt.Fprintf(&b, "<path d=\"M40 %.1fH%d\" stroke=\"#ccc\"/><text x=\"6\" y=\"%.1f\">%g</text>\n", y(v), width-10,
			y(v)+4, v)
	}
	for hour := 0; hour <= 24; hour += 6 {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%d:00</text>\n", 40+hour*(width-60)/24-8, height-10, hour)
	}
	for i, line := range []struct {
		name, color string
		values      []float64
	}{{"none", "#999", none}, {"greedy", "#c60", greedy}, {"weightFrom", "#06c", ours}} {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"22\" fill=\"%s\">%s</text>\n<path fill=\"none\" stroke=\"%s\" d=\"", 560+i*90,
			line.color, line.name, line.color)
		for at := 0; at < traceMinutes; at += 10 {
			step := "L"
			if at == 0 {
				step = "M"
			}
			fmt.Fprintf(&b, "%s%.1f %.1f", step, 40+float64(at)*(width-60)/traceMinutes,
				y(slices.Max(line.values[at:at+10])))
		}
		b.WriteString("\"/>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func TestWeightsOfLoads(t *testing.T) {
	for level, want := range map[int]int{-1000: 2, -48: 2, -8: 50, 0: 100, 1: 109, 8: 200, 16: 400, 1000: 409_600} {
		if got := Load.Weight(3, map[string]int{"a": level}, "a"); got != want {
			t.Errorf("level %d weighs %d, want %d", level, got, want)
		}
	}
	if got := Load.Weight(3, nil, "a"); got != 300 {
		t.Errorf("a task with weight 3 that was not measured weighs %d", got)
	}
	if got := Lag.Weight(3, map[string]int{"a": 2}, "a"); got != 12 {
		t.Errorf("a task with weight 3 at level 2 weighs %d", got)
	}
}

// loaded is what is seen of tasks a to d, which two owners have two each of. The load of a is given.
func loaded(a float64) map[string]Seen {
	seen := map[string]Seen{}
	for i, load := range []float64{a, 3, 3, 1} {
		seen[string(rune('a'+i))] = Seen{Load: record.Load{Known: true, Value: load}, Owner: []string{"x", "y"}[i/2]}
	}
	return seen
}

func TestALoadIsPublishedWhereItIsWorthIt(t *testing.T) {
	r := Load.Rules()
	var published []Entry
	var scores Scores
	at, now := int64(0), began
	during := func(seen map[string]Seen, d time.Duration) (times int) {
		for end := now + d.Milliseconds(); now < end; now += r.Look.Milliseconds() {
			scores = r.Score(scores, published, seen, now)
			if next, changed := r.Next(published, at, scores, now); changed {
				published, at, times = next, now, times+1
			}
		}
		return times
	}
	if n := during(loaded(1), time.Hour); n != 0 {
		t.Errorf("published %d times although owners have the same", n)
	}
	if n := during(loaded(4), 30*time.Second); n != 0 {
		t.Errorf("published %d times for a burst", n)
	}
	if n := during(loaded(1), time.Hour); n != 0 {
		t.Errorf("published %d times after a burst", n)
	}
	if n := during(loaded(40), time.Hour); n == 0 || Levels(published)["a"] != 14 {
		t.Errorf("published %d times: %v", n, published)
	}
	before := slices.Clone(published)
	moved := loaded(400)
	for name, s := range moved {
		s.Since = now
		moved[name] = s
	}
	if during(moved, r.Hold-time.Second); !slices.Equal(before, published) {
		t.Error("a load counts shortly after its task has moved")
	}
	if n := during(map[string]Seen{"a": {}, "b": {Owner: "x"}}, time.Hour); n != 0 {
		t.Errorf("published %d times although nothing is measured", n)
	}
}

// Whatever the loads are: levels have bounds, entries are in order, publications keep their distance, and one that
// changes nothing is none.
func TestPropertiesOfAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Load.Rules()
		var published []Entry
		var scores Scores
		at, now := int64(0), began
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now += rapid.Int64Range(1, 400_000).Draw(t, "ms")
			seen := map[string]Seen{}
			for _, name := range []string{"a", "b", "c", "d"} {
				seen[name] = Seen{
					Load: record.Load{
						Known: rapid.Bool().Draw(t, "known"), Value: rapid.Float64Range(0, 1e15).Draw(t, "load"),
					},
					Owner: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "owner"),
					Since: rapid.Int64Range(0, now).Draw(t, "since"),
				}
			}
			scores = r.Score(scores, published, seen, now)
			next, changed := r.Next(published, at, scores, now)
			if !changed {
				continue
			}
			if at != 0 && millis(now-at) < r.Every {
				t.Fatalf("published after %v", millis(now-at))
			}
			names := slices.Sorted(maps.Keys(Levels(next)))
			for i, e := range next {
				if e.Level < leastLoad || e.Level > mostLoad || e.Name != names[i] {
					t.Fatalf("%v", next)
				}
			}
			if slices.Equal(published, next) {
				t.Fatalf("nothing differs: %v", next)
			}
			published, at = next, now
		}
	})
}
