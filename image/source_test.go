//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository makes a clone's look-alike, of one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "cmd", "shardctl"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func commit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "first"}, {"tag", "v9.8.7"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@example.com",
			"GIT_COMMITTER_DATE=2020-02-03T04:05:06+0100", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		output(t, cmd)
	}
}

func TestDescribe(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir := repository(t)
	commit(t, dir)
	s := source{dir: dir}
	if err := s.describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2020, 2, 3, 3, 5, 6, 0, time.UTC); s.version != "v9.8.7" || len(s.revision) != 40 ||
		!s.created.Equal(want) || s.created.Location() != time.UTC {
		t.Errorf("version %s, revision %s, created %s", s.version, s.revision, s.created)
	}

	given := source{dir: dir, version: "v1", revision: "abc"}
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	if err := given.describe(t.Context()); err != nil || given.version != "v1" || given.revision != "abc" ||
		given.created.Format(time.RFC3339) != testCreated {
		t.Errorf("%+v: %v", given, err)
	}
}

// Where there is no git, the error names what can be given instead. The clock is never asked.
func TestDescribeWithoutGit(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	t.Setenv("GIT_CEILING_DIRECTORIES", "/")
	dir := repository(t)
	for _, c := range []struct {
		s    source
		want string
	}{
		{source{dir: dir}, "give --version instead"},
		{source{dir: dir, version: "v1"}, "give --revision instead"},
		{source{dir: dir, version: "v1", revision: "abc"}, "give SOURCE_DATE_EPOCH instead"},
		{source{dir: t.TempDir()}, "is not shardctl's module"},
	} {
		if err := c.s.describe(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	bad := source{dir: dir, version: "v1", revision: "abc"}
	if err := bad.describe(t.Context()); err == nil || !strings.Contains(err.Error(), `SOURCE_DATE_EPOCH "yesterday"`) {
		t.Error(err)
	}
}
