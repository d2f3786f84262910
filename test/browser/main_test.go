//go:build linux

package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/testprocess"
)

var (
	writeTo = flag.String("write", "", "write the screenshots of the README into this directory of the repository")
	lookTo  = flag.String("look", "", "write a screenshot of everything that is looked at into this directory")
)

const (
	// patience bounds every wait. It is no figure: those are printed.
	patience = 2 * time.Minute
	lease    = 4 * time.Second
)

var (
	bins     harness.Binaries
	axe      string          // the script of axe-core
	chromium context.Context // a browser without pages
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runAll builds the program, starts the browser, and runs the tests. Paths count from the root of the repository.
func runAll(m *testing.M) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		return 0, err
	}
	work, err := testprocess.WorkDir("page")
	if err != nil {
		return 0, err
	}
	defer func() { _ = work.Close(false) }()
	if bins, err = harness.Build(ctx, work.Data()); err != nil {
		return 0, err
	}
	if axe, err = axeScript(ctx); err != nil {
		return 0, err
	}
	stop, err := startChromium(ctx, filepath.Join(work.Data(), "profile"))
	if err != nil {
		return 0, err
	}
	defer stop()
	code := m.Run()
	for _, line := range figures.lines {
		fmt.Fprintln(os.Stdout, "figure:", line)
	}
	return code, nil
}

// figures are what was measured, printed at the end.
var figures struct {
	sync.Mutex
	lines []string
}

// figure notes what a test measured, and fails when it is above a generous limit: test machines may be busy.
func figure(t *testing.T, what string, got, aim, limit time.Duration) {
	t.Helper()
	line := fmt.Sprintf("%s: %d ms (aim: below %v)", what, got.Milliseconds(), aim)
	t.Log(line)
	figures.Lock()
	figures.lines = append(figures.lines, line)
	figures.Unlock()
	if got > limit {
		t.Errorf("%s: %v, want at most %v on any machine", what, got, limit)
	}
}
