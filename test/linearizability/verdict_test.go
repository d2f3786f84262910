package linearizability

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/test/testprocess"
)

// patience is how long porcupine may search one history. They are short: far less is needed.
const patience = 30 * time.Second

// A line is one line of a history as people read it.
type line struct {
	call, end int64
	who, text string
}

// epoch is where the moments of histories count from.
var epoch = time.Now()

func now() int64 { return int64(time.Since(epoch)) }

// timeline is a history as people read it; moments count from its beginning.
func timeline(lines []line) string {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.call, b.call) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(
			&b, "  %12s – %12s  %-4s %s\n", since(lines[0].call, l.call), since(lines[0].call, l.end), l.who, l.text,
		)
	}
	return b.String()
}

// since is how long after from something was, in ms.
func since(from, at int64) string {
	if at == forever {
		return "…"
	}
	return fmt.Sprintf("%.3f ms", float64(at-from)/1e6)
}

// tally counts what was judged, over all of a test.
type tally struct {
	histories, operations, unknown atomic.Int64
	runs, lost, values             atomic.Int64 // of locks
}

func (c *tally) String() string {
	text := fmt.Sprintf(
		"%d histories, %d operations, %d of them unknown", c.histories.Load(), c.operations.Load(), c.unknown.Load(),
	)
	if runs := c.runs.Load(); runs > 0 {
		text += fmt.Sprintf(
			", %d runs, %d of them cut short by death or a lost lease, %d reads and sets of values", runs,
			c.lost.Load(),
			c.values.Load(),
		)
	}
	return text
}

// finding is a history that is wrong: why, the time line, and how to draw it.
type finding struct {
	text      string
	draw      func(path string) error // nil: there is nothing to draw
	undecided bool                    // the search has stopped at its limit
}

// judge has porcupine decide on one history. It returns nothing when the history can be explained.
func judge(model porcupine.Model, name string, ops []porcupine.Operation, lines []line) []finding {
	result, info := porcupine.CheckOperationsVerbose(model, ops, patience)
	what, undecided := "no order explains it", false
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
	case porcupine.Unknown:
		what, undecided = fmt.Sprintf("undecided after %v", patience), true
	}
	return []finding{{
		text:      fmt.Sprintf("%s: %s\n%s", name, what, timeline(lines)),
		draw:      func(path string) error { return porcupine.VisualizePath(model, info, path) },
		undecided: undecided,
	}}
}

// pictures is where the pictures of a failure are left for people to look at.
var pictures = sync.OnceValues(func() (string, error) {
	work, err := testprocess.WorkDir("history")
	if err != nil {
		return "", err
	}
	return work.Dir, work.Close(true)
})

// picture draws a finding to a file that stays, and returns where it is.
func (f finding) picture() string {
	if f.draw == nil {
		return ""
	}
	dir, err := pictures()
	if err != nil {
		return err.Error()
	}
	path := filepath.Join(dir, rand.Text()+".html")
	if err := f.draw(path); err != nil {
		return err.Error()
	}
	return "  picture: " + path
}

// tooMany stops a test that fails everywhere from printing everything.
const tooMany = 3

// complain reports what judges found, with the seed. Where many writes are of unknown outcome and a store has forgotten
// some, a search may take for ever. One history may remain undecided so, and one more for each minute that is recorded:
// each minute has thousands. The output of the test says so.
func complain(t *testing.T, seed uint64, found []finding) {
	t.Helper()
	decided := func(f finding) bool { return !f.undecided }
	if n := len(found); n > 0 && n <= 1+*seconds/60 && !slices.ContainsFunc(found, decided) {
		for _, f := range found {
			t.Logf("seed %d: %s%s", seed, f.text, f.picture())
		}
		_, _ = fmt.Fprintf(os.Stdout, "cut short: %s, seed %d: undecided after %v: %d\n", t.Name(), seed, patience, n)
		return
	}
	for _, f := range found[:min(len(found), tooMany)] {
		t.Errorf("seed %d: %s%s", seed, f.text, f.picture())
	}
	if more := len(found) - tooMany; more > 0 {
		t.Errorf("seed %d: and %d more", seed, more)
	}
}
