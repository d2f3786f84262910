package output

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

const logKey elect.Key = "g/n"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRingKeepsTheNewest(t *testing.T) {
	l := NewKept()
	l.Open(logKey, 1)
	for range ringLines + 5 {
		l.Add(logKey, 1, taskrun.Stdout, "x", time.Now())
	}
	if lines := l.Tail(logKey, 2*ringLines); len(lines) != ringLines || lines[0].Seq != 6 ||
		lines[ringLines-1].Seq != ringLines+5 {
		t.Errorf("%d lines from %d", len(lines), lines[0].Seq)
	}
	for range 10 {
		l.Add(logKey, 1, taskrun.Stderr, strings.Repeat("x", maxLine), time.Now())
	}
	lines := l.Tail(logKey, ringLines)
	if len(lines) != ringBytes/maxLine || lines[0].Stream != taskrun.Stderr || l.rings[logKey].text > ringBytes ||
		l.size != l.rings[logKey].size() {
		t.Errorf("%d lines of %d bytes", len(lines), l.rings[logKey].text)
	}
	if kept := len(l.rings[logKey].lines); kept > 64 {
		t.Errorf("space for %d lines, of which %d are there", kept, len(lines))
	}
}

// The ring is a circle that grows and shrinks: it must hold what a plain list would.
func TestRingIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, want := NewKept(), []string(nil)
		l.Open(logKey, 1)
		for i, drop := range rapid.SliceOfN(rapid.Bool(), 0, 200).Draw(t, "drops") {
			if drop && len(want) > 0 {
				l.rings[logKey].drop()
				want = want[1:]
				continue
			}
			text := strconv.Itoa(i)
			l.rings[logKey].push(keptLine{text: text})
			want = append(want, text)
		}
		n := rapid.IntRange(0, 200).Draw(t, "n")
		var got []string
		for _, line := range l.Tail(logKey, n) {
			got = append(got, line.Text)
		}
		if !slices.Equal(got, want[max(0, len(want)-n):]) {
			t.Fatalf("%v of %v", got, want)
		}
	})
}

func TestLogsOfAllTasksStayWithinTheBudget(t *testing.T) {
	const count, lines = 10_000, 100
	l, text := NewKept(), strings.Repeat("x", 100)
	keys := make([]elect.Key, count)
	for i := range keys {
		keys[i] = elect.NewKey("g", strconv.Itoa(i))
		l.Open(keys[i], 1)
	}
	for range 2 {
		l.Add(keys[0], 1, taskrun.Stdout, "of a quiet task", time.Now())
	}
	before := heapInUse()
	for range lines {
		for _, key := range keys[1:] {
			if l.Add(key, 1, taskrun.Stdout, strings.Clone(text), time.Now()); l.size > l.budget {
				t.Fatalf("%d bytes are kept, the budget is %d", l.size, l.budget)
			}
		}
	}
	if took := heapInUse() - before; took > logBudget*5/4 {
		t.Errorf("%d bytes are in use, the budget is %d", took, logBudget)
	}
	sum := 0
	for _, r := range l.rings {
		sum += r.size()
	}
	if sum != l.size || sum < logBudget*7/8 {
		t.Errorf("%d bytes are kept, counted are %d of %d", sum, l.size, logBudget)
	}
	if n := len(l.Tail(keys[0], lines)); n != 2 {
		t.Errorf("%d lines of a quiet task are left, want both: the largest give up first", n)
	}
	least, most := lines, 0
	for _, key := range keys[1:] {
		kept := l.Tail(key, lines)
		least, most = min(least, len(kept)), max(most, len(kept))
		if kept[len(kept)-1].Seq != lines {
			t.Fatalf("the newest line of %s is gone", key)
		}
	}
	if least < 30 || most > 2*least {
		t.Errorf("%d to %d lines are kept of equal tasks", least, most)
	}
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 20).Draw(t, "sizes")
		total := rapid.IntRange(0, 500).Draw(t, "total")
		cut := func(limit int) (sum int) {
			for _, s := range sizes {
				sum += min(s, limit)
			}
			return sum
		}
		limit := level(slices.Clone(sizes), total)
		if cut(limit) > total {
			t.Fatalf("cut to %d they sum up to %d, want at most %d", limit, cut(limit), total)
		}
		if limit < slices.Max(sizes) && cut(limit+1) <= total {
			t.Fatalf("cut to %d, although %d would do", limit, limit+1)
		}
	})
}

func TestLogsOfTasksThatLeft(t *testing.T) {
	l := NewKept()
	l.Open("g/a", 1)
	l.Add("g/a", 1, taskrun.Stdout, "one", time.Now())
	l.Open("g/a", 1) // owned again before the first Run returned
	l.Release("g/a")
	if len(l.left) > 0 {
		t.Error("it has left while it runs")
	}
	l.Release("g/a")
	if got := l.Tail("g/a", 10); len(got) != 1 || got[0].Text != "one" {
		t.Errorf("tail %v", got)
	}
	for i := range keptRings {
		key := elect.NewKey("g", strings.Repeat("n", i+1))
		l.Open(key, 1)
		l.Add(key, 1, taskrun.Stdout, "x", time.Now())
		l.Release(key)
	}
	if l.Tail("g/a", 10) != nil || len(l.rings) != keptRings || l.size != keptRings*(lineCost+1) {
		t.Errorf("%d rings kept, want %d and not the oldest; %d bytes", len(l.rings), keptRings, l.size)
	}
	l.Open("g/silent", 1)
	l.Release("g/silent")
	l.Add("g/silent", 1, taskrun.Stdout, "too late", time.Now())
	if l.Tail("g/silent", 10) != nil || len(l.rings) != keptRings {
		t.Error("a task that wrote nothing is remembered")
	}
}

// A task that comes back keeps the lines of before, each with the token of its start.
func TestOutputSaysOfWhichStart(t *testing.T) {
	l := NewKept()
	l.Open(logKey, 5)
	l.Start(logKey, 5)
	l.Add(logKey, 5, taskrun.Stdout, "one", time.Now())
	l.Start(logKey, 6)
	l.Add(logKey, 6, taskrun.Stdout, "two", time.Now())
	l.Release(logKey)
	if kept, ok := l.Output(logKey); !ok || kept.Held || kept.Claim != 5 || kept.Token != 6 {
		t.Errorf("after it has left: %v, %+v", ok, kept)
	}
	l.Open(logKey, 9)
	l.Add(logKey, 6, taskrun.Stdout, "late", time.Now())
	kept, _ := l.Output(logKey)
	var tokens []int64
	for _, line := range kept.Lines {
		tokens = append(tokens, line.Token)
	}
	if !kept.Held || kept.Claim != 9 || kept.Token != 9 || !slices.Equal(tokens, []int64{5, 6, 6}) {
		t.Errorf("once it is back: %+v", kept)
	}
	if _, ok := l.Output("g/other"); ok {
		t.Error("there is output of a task that was never here")
	}
}
