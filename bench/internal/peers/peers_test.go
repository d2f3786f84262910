//go:build linux

package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

const beginMark, endMark = "<!-- some: begin -->\n", "<!-- some: end -->"

func TestWriteReplacesWhatIsBetweenTheMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time as the first
		if err := Write(page, "some", "| new |\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + beginMark + "| new |\n" + endMark + "after\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteRefusesAPageWithoutMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(page, "some", "| new |\n"); err == nil {
		t.Error("no error")
	}
}

func TestSumAddsUpSeriesWithAllLabels(t *testing.T) {
	m := metrics{
		"# HELP requests_total of this server", `requests_total{resource="leases",verb="PUT"} 3`,
		`requests_total{verb="PUT",resource="leases",code="409"} 2`, `requests_total{resource="pods",verb="PUT"} 5`,
		`requests_total_other{resource="leases",verb="PUT"} 7`, "puts_total 1.5e+01",
	}
	if got := m.sum("requests_total", `resource="leases"`, `verb="PUT"`); got != 5 {
		t.Errorf("with labels: %v, want 5", got)
	}
	if got := m.sum("puts_total"); got != 15 {
		t.Errorf("without labels: %v, want 15", got)
	}
}

func TestOvertaken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		served []int
		n      int
		want   int
	}{
		{"in order", []int{0, 1, 2, 3}, 4, 0},
		{"the first comes last", []int{1, 2, 3, 0}, 4, 3},
		{"two are swapped", []int{0, 2, 1, 3}, 4, 1},
		{"who gets nothing is last", []int{0, 2, 3}, 4, 2},
		{"no waiter got it", nil, 4, 0},
	} {
		if got := overtaken(tt.served, tt.n); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestClashesShowTheLongestAndWhoWasTold(t *testing.T) {
	for want, all := range map[string][]clash{
		none:                         nil,
		"0; told":                    {{0, true}, {0, true}},
		"some ms; told":              {{0, true}, {time.Millisecond, true}},
		"1.50 s; told":               {{1500 * time.Millisecond, true}, {0, true}},
		"≥ 8.0 s; not told":          {{8 * time.Second, false}},
		"≥ 8.0 s; told 1 of 2 times": {{8 * time.Second, false}, {0, true}},
	} {
		if got := clashes(all); got != want {
			t.Errorf("%v: %q, want %q", all, got, want)
		}
	}
}

func TestPromotionsSayWhoWasAcknowledged(t *testing.T) {
	got := promotions("7.0", []*column{
		{Peer: Peer{title: "ours"}, promoted: []promotion{{until: 6 * time.Second}}},
		{Peer: Peer{title: "other"}, promoted: []promotion{
			{acked: true, until: time.Second, clash: clash{2 * time.Second, false}},
		}},
	})
	for _, want := range []string{
		"| ours | other |", "| 0 of 1 times | 1 of 1 times |", "| 0; there was one | ≥ 2.0 s; not told |",
		"| 6000 ms / 6000 ms | 1000 ms / 1000 ms |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// Work ends once the loss is reported, and says when it acted last.
func TestWorkAsksBeforeEachAct(t *testing.T) {
	var w work
	asked := 0
	w.begin(func() bool {
		asked++
		return asked > 3
	})
	last, told := w.report()
	if asked != 4 || last == 0 || told < last {
		t.Errorf("asked %d times, last %d, told %d", asked, last, told)
	}
	var first work
	first.begin(func() bool { return true })
	if last, told := first.report(); last != 0 || told == 0 {
		t.Errorf("lost from the beginning: last %d, told %d", last, told)
	}
}

// Each group names systems that there are, and its table compares them with pkg/mutex.
func TestTableOfLocks(t *testing.T) {
	for _, g := range groups {
		for _, id := range g.peers {
			if _, found := byID(id); !found {
				t.Errorf("%s: no peer %q", g.name, id)
			}
		}
	}
	ms := func(n int) []time.Duration { return []time.Duration{time.Duration(n) * time.Millisecond} }
	ours := &column{
		Peer: Peer{id: mutexID, title: "ours"}, took: ms(4),
		crowded: crowd{gaps: ms(10), overtaken: []int{0}},
	}
	other := &column{
		Peer: Peer{id: "other", title: "other"}, took: ms(2),
		crowded: crowd{gaps: ms(30), overtaken: []int{3, 7}, unserved: 2},
		cost:    &rates{writes: 5, reads: 6},
	}
	quiet := lab.NewQuiet()
	defer quiet.Close()
	got := head(quiet) + lockTable{site: site{server: "a server"}, columns: []*column{ours, other}}.String()
	for _, want := range []string{
		"load " + quiet.Load + " at the start. The machine\nstood still for ",
		"| a server | ours | other |\n|---|---|---|\n", "| 4.00 ms / 4.00 ms | 2.00 ms / 2.00 ms |", "| 1 | 0.5 |",
		"30.0 ms / 30.0 ms; 2 of 50 had not got it", "| 1 | 3 |", "before one | 0 | 7 |", "| – | 5.0 / 6.0 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}
