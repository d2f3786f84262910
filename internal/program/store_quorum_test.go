//go:build unix

package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/test/suites"
)

// A quorum is set up once. A server that lost its disk is shown by store check, and counts again once it is
// re-admitted.
func TestStoreInitAndReadmit(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	uri := "quorum:sqlite:" + file("a") + ",sqlite:" + file("b") + ",sqlite:" + file("c")
	wantCheck := func(says string) {
		t.Helper()
		got := runProgram(t, "store", "check", uri)
		if got.code != 0 || !strings.Contains(got.stdout, says) {
			t.Fatalf("store check: code %d, want 0 and %q:\n%s%s", got.code, says, got.stdout, got.stderr)
		}
	}
	want := func(command string, code int, says string, args ...string) {
		t.Helper()
		got := runProgram(t, append([]string{"store", command}, args...)...)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, says) || strings.Count(got.stderr, "\n") > 1 {
			t.Fatalf("store %s %v: code %d, want %d and %q:\n%s%s", command, args, got.code, code, says, got.stdout,
				got.stderr)
		}
	}
	wantReadmit := func(code int, says string, args ...string) {
		t.Helper()
		want("readmit", code, says, args...)
	}
	wantReadmit(cli.CodeNo, "the quorum was not set up: run shardctl store init", uri, "2")
	want("check", cli.CodeNo, "the quorum was not set up: run shardctl store init", uri)
	want("init", 0, "the store is set up", uri)
	want("init", 0, "the store was set up before", uri)
	wantCheck("quorum of 3 servers")
	wantReadmit(cli.CodeUsage, "server 2 did not lose its identity", uri, "2")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file("b") + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	want("init", cli.CodeUsage, "server 2 lost its disk: re-admit it", uri)
	wantCheck("StoreMinorityAway: Server 2 of the quorum, sqlite:" + file("b"))
	wantReadmit(cli.CodeUsage, "server 4, want 1 to 3", uri, "4")
	wantReadmit(cli.CodeUsage, `INDEX is "second", must be the server's place`, uri, "second")
	wantReadmit(cli.CodeUsage, "names no quorum, must be quorum:URI,URI,URI", "sqlite:"+file("b"), "2")
	wantReadmit(cli.CodeUsage, "names 2 servers, must be 3 or 5", "quorum:sqlite:/x,sqlite:/y", "2")
	away := "quorum:redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3"
	want("init", cli.CodeUsage, "sqlite needs no set-up", "sqlite:"+file("b"))
	want("init", cli.CodeNo, "server 1: ", away, "--timeout", "1s")
	wantReadmit(cli.CodeNo, "0 of 3 servers count, want 2: server 1: ", away, "1", "--timeout", "1s")
	wantReadmit(0, "server 2 counts again", uri, "2")
	wantCheck("ok: nothing is missing")
	if got := runProgram(t, "store", "check", uri); strings.Contains(got.stdout, "StoreMinorityAway") {
		t.Errorf("server 2 does not count:\n%s", got.stdout)
	}
}
