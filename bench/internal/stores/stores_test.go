//go:build linux

package stores

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/pkg/store"
)

func TestUsage(t *testing.T) {
	pid, parent, used, err := parseStat("7 (a) b) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7")
	if err != nil || pid != 7 || parent != 3 || used != time.Second {
		t.Fatalf("got %d, %d, %v, %v", pid, parent, used, err)
	}
	if _, _, _, err := parseStat("7 (a"); err == nil {
		t.Fatal("half a line is one")
	}
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; { // uses the processor
	}
	mine, err := usage([]int{os.Getpid()})
	if err != nil || mine == 0 {
		t.Fatalf("got %v, %v", mine, err)
	}
	if all, err := usage([]int{os.Getppid()}); err != nil || all < mine {
		t.Fatalf("the parent's %v, %v are less than its child's %v", all, err, mine)
	}
	if none, err := usage(nil); err != nil || none != 0 {
		t.Fatalf("of no holder: %v, %v", none, err)
	}
}

// A notification of an earlier write, or of another document, is not that of this one.
func TestAwaitNotice(t *testing.T) {
	at := func(rev int64) store.Notification {
		return store.Notification{Kind: store.KindOverride, ID: noted, Doc: &store.Doc{Rev: rev}}
	}
	other := store.Notification{Kind: store.KindOverride, ID: "pause/bench/b"}
	for name, tt := range map[string]struct {
		told bool
		left int
		sent []store.Notification
	}{
		"the one before comes twice": {true, 0, []store.Notification{at(6), other, at(7)}},
		"without the document":       {true, 1, []store.Notification{{ID: noted}, at(7)}},
		"all may have changed":       {false, 1, []store.Notification{{Resync: true}, at(7)}},
	} {
		notices := make(chan store.Notification, len(tt.sent))
		for _, n := range tt.sent {
			notices <- n
		}
		told, err := awaitNotice(t.Context(), notices, 7)
		if err != nil || told != tt.told || len(notices) != tt.left {
			t.Errorf("%s: %t, %v, %d left", name, told, err, len(notices))
		}
		if err := drain(notices); err != nil || len(notices) != 0 {
			t.Errorf("%s: drained: %v, %d left", name, err, len(notices))
		}
		close(notices)
		if _, err := awaitNotice(t.Context(), notices, 7); err == nil {
			t.Errorf("%s: a watch that ended notifies", name)
		}
	}
}

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
