//go:build linux

package stores

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// Each number is a multiple of what its column says.
func TestTable(t *testing.T) {
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	tab := &table{quiet: lab.NewQuiet()}
	defer tab.quiet.Close()
	tab.missing = []string{"etcd: missing"}
	for _, name := range []string{"b 1", "A 2"} {
		tab.rows = append(tab.rows, row{
			name: name, floor: floor{write: ms(2), writeP99: ms(8), notice: ms(3), cost: cost{ms(1), ms(3)}},
			handOver: []time.Duration{ms(20), ms(60)}, failOver: []time.Duration{ms(2000), ms(2100), ms(2200)},
			coldStarts: []time.Duration{ms(3000), ms(5000), ms(4000)}, idle: cost{ms(4), ms(2)},
		})
	}
	got := tab.String()
	for _, want := range []string{
		"| A 2 | 2.00 / 8.00 ms | 3.00 ms = 1.5 w | 20.0 / 60.0 ms = 10 / 30 w | 2100 / 2200 ms = 1100 / 1100 w " +
			"| 4.00 + 2.00 ms = 1.5 c | 4000 ms = 2000 w |\n| b 1 |",
		tab.quiet.Measured(), "Of each store: 2 hand-overs, 3 fail-overs, 3 cold starts,",
		"NOT MEASURED: etcd: missing",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if _, err := choose([]kind{{name: "a"}}, []string{"b"}); err == nil || !strings.Contains(err.Error(), "[a]") {
		t.Errorf("an unknown store: %v", err)
	}
}
