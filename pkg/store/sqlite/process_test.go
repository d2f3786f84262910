package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/suites"
)

// childEnv makes the test binary a writer on the file that it names.
const childEnv = "SQLSTORE_TEST_CHILD"

const (
	children = 4
	wins     = 40 // revisions that each child writes
)

// Several processes set one file up at once and race for the revisions of one document. Each revision has one writer,
// and no acknowledged write of any process is lost.
func TestProcesses(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	type result struct {
		out []byte
		err error
	}
	results := make(chan result)
	for range children {
		go func() {
			cmd := exec.CommandContext(ctx, self)
			cmd.Env = append(os.Environ(), childEnv+"="+path)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			results <- result{out, err}
		}()
	}
	var all []int64
	for range children {
		r := <-results
		var revs []int64
		if err := errors.Join(r.err, json.Unmarshal(r.out, &revs)); err != nil {
			t.Errorf("child: %v: %s", err, r.out)
			continue
		}
		if len(revs) != wins {
			t.Errorf("a child wrote %d revisions, want %d", len(revs), wins)
		}
		all = append(all, revs...)
	}
	slices.Sort(all)
	for i, rev := range all {
		if rev != int64(i+1) {
			t.Fatalf("revisions %v: want each from 1 to %d once", all, children*wins)
		}
	}
	res, err := open(t, path, sqlite.Options{}).Read(t.Context(), driver.KindLock, "g/a")
	if err != nil || len(res.Docs) != 1 || res.Docs[0].Count != children*wins {
		t.Fatalf("left: %+v, %v; want count %d", res.Docs, err, children*wins)
	}
}

// childMain writes revisions of one document and prints which of them it wrote.
func childMain(path string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	revs, err := childRevisions(ctx, path)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(revs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childRevisions(ctx context.Context, path string) ([]int64, error) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close(ctx) }()
	d := driver.Doc{Kind: driver.KindLock, ID: "g/a"}
	me := fmt.Sprint("process ", os.Getpid())
	var revs []int64
	for try := int64(1); len(revs) < wins; try++ {
		next := d
		next.Rev, next.Count, next.WriterID = d.Rev+1, d.Count+1, driver.WriterID{Session: me, Seq: try}
		outs, err := s.Apply(ctx, driver.Change{IfRev: d.Rev, Doc: next})
		switch {
		case err != nil:
			return nil, err
		case outs[0].Status == driver.Applied:
			revs, d = append(revs, next.Rev), next
		case outs[0].Doc != nil:
			d = *outs[0].Doc
		default:
			return nil, outs[0].Err
		}
	}
	return revs, nil
}
