package redis_test

import (
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// A day of one replica with a lease of 20 s is 43,200 of them.
var heartbeats = flag.Int("heartbeats", 12_000, "how many heartbeats TestGarbageOfHeartbeats writes")

// number is one number of what a server says of itself.
func number(t *testing.T, c *redis.Client, name string) int64 {
	t.Helper()
	_, rest, found := strings.Cut(c.Info(t.Context()).Val(), "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil {
		t.Fatalf("%s: %q", name, text)
	}
	return n
}

// Heartbeats and reads lengthen the append-only file, which the server rewrites by itself. Memory does not grow.
// docs/stores/redis.md says what that is in a day.
func TestGarbageOfHeartbeats(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	const sample, mostWritten, mostRead, rewritten = 1000, 600, 100, 1 << 20
	// What fsync costs is not the question.
	server := testservers.Start(t, testservers.KindRedis, "appendfsync no", "auto-aof-rewrite-min-size 1mb")
	s, c := storetest.Open(t, driver.Config{URI: "redis://" + server.Addr}), client(t, server.Addr)
	const id = "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
	rev := floor(t, s).Floor
	heartbeat := func() {
		t.Helper()
		change := driver.Change{IfRev: rev, Doc: driver.Doc{
			Kind: driver.KindSession, ID: id, Rev: rev + 2000, State: driver.StateLive, Count: rev,
			WriterID: driver.WriterID{Session: id, Seq: rev},
			Body:     []byte(`{"instance":"web-1","lease":20000,"version":"1.0.0"}`),
		}}
		must(t, s, change, driver.Applied)
		rev = change.Doc.Rev
	}
	must(t, s, driver.Change{Doc: driver.Doc{
		Kind: driver.KindSession, ID: id, Rev: rev, State: driver.StateLive,
		WriterID: driver.WriterID{Session: id, Seq: 1},
	}}, driver.Applied)
	begin, memory := number(t, c, "aof_current_size"), number(t, c, "used_memory")
	for range sample {
		heartbeat()
	}
	written := number(t, c, "aof_current_size")
	for range sample {
		floor(t, s)
	}
	read := number(t, c, "aof_current_size")
	each, eachRead := (written-begin)/sample, (read-written)/sample
	if each <= 0 || each > mostWritten || eachRead <= 0 || eachRead > mostRead {
		t.Errorf("%d bytes a heartbeat, %d a read; want at most %d and %d", each, eachRead, mostWritten, mostRead)
	}
	largest := read
	for n := sample; n < *heartbeats; n++ {
		heartbeat()
		if n%100 == 0 {
			largest = max(largest, number(t, c, "aof_current_size"))
		}
	}
	waitFor(t, func() bool { return number(t, c, "aof_rewrite_in_progress") == 0 })
	grown := number(t, c, "used_memory") - memory
	t.Logf("%d heartbeats of %d bytes, reads of %d; the file had %d bytes at most, after a rewrite %d; memory grew by %d",
		*heartbeats, each, eachRead, largest, number(t, c, "aof_base_size"), grown)
	// What is written while it is rewritten counts too, in both sizes: on a busy machine that is much.
	if base := number(t, c, "aof_base_size"); largest > 4*rewritten || base == 0 || base > rewritten {
		t.Errorf("the file had %d bytes, and %d after a rewrite; want it rewritten at %d", largest, base, rewritten)
	}
	if grown > 1<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
}
