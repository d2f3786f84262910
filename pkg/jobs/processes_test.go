package jobs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/jobs"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Variables of a process that shares the job: the store as KIND:URI, its name, and a directory that all share.
const (
	envStore    = "SHARDCTL_JOBS_STORE"
	envInstance = "SHARDCTL_JOBS_INSTANCE"
	envDir      = "SHARDCTL_JOBS_DIR"
)

// Files of that directory. All processes write to one, so that what they say has an order. Runs go on while the other
// is there.
const (
	diaryFile = "diary"
	holdFile  = "hold"
)

func TestMain(m *testing.M) {
	if os.Getenv(envStore) == "" {
		os.Exit(testprocess.Main(m))
	}
	if err := share(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func openStore(ctx context.Context, target string) (store.Store, error) {
	kind, uri, _ := strings.Cut(target, ":")
	if kind == "sqlite" {
		return sqlite.Open(ctx, uri, sqlite.Options{})
	}
	return mongo.Open(ctx, mongo.Options{URI: uri})
}

// share is a process with one job, which says when a run begins and ends.
func share(ctx context.Context) error {
	db, err := openStore(ctx, os.Getenv(envStore))
	if err != nil {
		return err
	}
	m, err := jobs.New(jobs.Config{Store: db, Instance: os.Getenv(envInstance), Lease: 4 * time.Second})
	if err != nil {
		return err
	}
	dir := os.Getenv(envDir)
	diary, err := os.OpenFile(filepath.Join(dir, diaryFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	say := func(what string, run jobs.Run) {
		fmt.Fprintln(diary, os.Getenv(envInstance), what, run.ScheduledAt.UnixMilli(), run.Token)
	}
	err = m.Add("@every 1s", "report", func(ctx context.Context, run jobs.Run) error {
		say("begins", run)
		defer say("ends", run)
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, holdFile)); err != nil {
				return nil // nothing holds the run up
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// said is a line of the diary.
type said struct {
	instance, what string
	tick, token    int64
}

// team are processes that share a job.
type team struct {
	processes map[string]*testprocess.Again
	dir       string
	read      int // lines of the diary
}

func startTeam(t *testing.T, target string) *team {
	t.Helper()
	m := &team{processes: map[string]*testprocess.Again{}, dir: t.TempDir()}
	for _, name := range []string{"a", "b", "c"} {
		m.processes[name] = testprocess.StartAgain(t, envStore+"="+target, envInstance+"="+name, envDir+"="+m.dir)
	}
	return m
}

// next waits for the next line.
func (m *team) next(t *testing.T, limit time.Duration) (l said, ok bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(m.dir, diaryFile)) // it is made by the first process
		lines := strings.SplitAfter(string(text), "\n")
		if m.read+1 >= len(lines) { // what follows the last newline is no line
			continue
		}
		m.read++
		if _, err := fmt.Sscan(lines[m.read-1], &l.instance, &l.what, &l.tick, &l.token); err != nil {
			t.Fatalf("%q: %v", lines[m.read-1], err)
		}
		return l, true
	}
	return l, false
}

func (m *team) line(t *testing.T) said {
	t.Helper()
	l, ok := m.next(t, 2*time.Minute)
	if !ok {
		t.Fatal("waited two minutes for a run to begin or to end")
	}
	return l
}

// judge checks what the team says: each tick once, one run after another, tokens that rise.
type judge struct {
	last said // the run that began last
	open bool // it has not ended
}

func (j *judge) hears(t *testing.T, l said) {
	t.Helper()
	switch {
	case l.what == "begins" && j.open:
		t.Errorf("%+v begins while %+v goes on", l, j.last)
	case l.what == "begins" && (l.tick <= j.last.tick || l.token <= j.last.token):
		t.Errorf("%+v after %+v: tick and token must rise", l, j.last)
	case l.what == "ends" && (!j.open || l.tick != j.last.tick):
		t.Errorf("%+v ends, but %+v went on", l, j.last)
	case l.what != "begins" && l.what != "ends":
		t.Fatalf("%+v: not a line of a job", l)
	}
	if j.open = l.what == "begins"; j.open {
		j.last = l
	}
}

// runs hears so many runs begin and end.
func (j *judge) runs(t *testing.T, m *team, n int) {
	t.Helper()
	for n > 0 {
		l := m.line(t)
		if j.hears(t, l); l.what == "ends" {
			n--
		}
	}
}

func TestThreeProcesses(t *testing.T) {
	for kind, target := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string {
			t.Helper()
			suites.Need(t, suites.Processes, "real processes and the end of a lease")
			return "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
		},
		"MongoDB": func(t *testing.T) string { t.Helper(); return "mongo:" + testmongo.Shared(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			m, j := startTeam(t, target(t)), &judge{}
			hold := filepath.Join(m.dir, holdFile)
			j.runs(t, m, 3)

			if err := os.WriteFile(hold, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for !j.open || !held(t, m, j) {
				j.hears(t, m.line(t))
			}
			killed := j.last
			m.processes[killed.instance].Kill()
			j.open = false // it goes on no more
			if err := os.Remove(hold); err != nil {
				t.Fatal(err)
			}

			j.runs(t, m, 3)
			if j.last.instance == killed.instance {
				t.Errorf("%s runs on after it was killed", killed.instance)
			}
		})
	}
}

// held says whether the run that began last is held up: nothing is said for a while.
func held(t *testing.T, m *team, j *judge) bool {
	t.Helper()
	l, ok := m.next(t, time.Second)
	if ok {
		j.hears(t, l)
	}
	return !ok && j.open
}
