package redis_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

const lease = time.Second

// Keys are claimed only after good replies under one identity for a lease, by the client that had them or by any other.
func TestTheGateOpensAfterALease(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindRedis).Database()
	begin := time.Now() // the first good reply is that of open
	s := storetest.Open(t, driver.Config{URI: uri})
	first := lock("g/a", floor(t, s).Floor+1, lease)
	out := apply(t, s, first)
	if out.Status != driver.Unknown || !errors.Is(out.Err, driver.ErrUnavailable) ||
		!strings.Contains(out.Err.Error(), "claimed again in") {
		t.Fatalf("a claim at once: %+v", out)
	}
	must(t, s, lock("g/free", 7, 0), driver.Applied) // no claim
	must(t, s, first, driver.Refused)                // opened, for tokens above all that may have been given out before
	rev := claim(t, s, "g/a")
	if d := time.Since(begin); d < lease {
		t.Errorf("opened after %v, want %v", d, lease)
	}
	other := storetest.Open(t, driver.Config{URI: uri})
	if out := apply(t, other, lock("g/b", rev+1, lease)); out.Status != driver.Applied {
		t.Errorf("another client finds it open: %+v", out)
	}
	if out := apply(t, other, lock("g/c", 5, lease)); out.Status != driver.Refused || out.Doc != nil {
		t.Errorf("a claim with a token of before the gate: %+v, want refused", out)
	}
	out = apply(t, other, lock("g/c", rev+2, 2*lease))
	if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "a lease of 1000 ms is kept") {
		t.Errorf("a claim with another lease: %+v", out)
	}
}

// After a failover a client that has had good replies for a lease opens the gate with its next write, claim or not. A
// process that begins later claims at once.
func TestAnyWriteOpensTheGateAgain(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	uri := "redis://" + server.Addr
	s := storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
	rev := claim(t, s, "g/a")
	heartbeat := func(s driver.Store) {
		t.Helper()
		rev++
		must(t, s, lock("g/not-claimed-"+strconv.FormatInt(rev, 10), rev, 0), driver.Applied)
	}
	const key, before = "shardctl:{default}:gate", "the identity before a failover"
	gateIs := func() string {
		t.Helper()
		got, err := client(t, server.Addr).HGet(t.Context(), key, "identity").Result()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}

	do(t, server.Addr, "HSET", key, "identity", before, "waitedAt", before+" 1")
	fresh := storetest.Open(t, driver.Config{URI: uri})
	heartbeat(fresh)
	if got := gateIs(); got != before {
		t.Errorf("who has had good replies for less than a lease has opened the gate: %q", got)
	}
	do(t, server.Addr, "HSET", key, "seen", 5)
	if out := apply(t, s, lock("g/of-one-in-five", rev+1, 0)); out.Status != driver.Unknown {
		t.Errorf("a change that one of five servers has: %+v", out)
	}
	if got := gateIs(); got != before {
		t.Errorf("a gate that too many servers have closed was opened: %q", got)
	}
	do(t, server.Addr, "HDEL", key, "seen")
	heartbeat(s)
	late := storetest.Open(t, driver.Config{URI: uri})
	if out := apply(t, late, lock("g/b", floor(t, late).Floor+1, lease)); out.Status != driver.Applied {
		t.Errorf("a claim of a process that began after the gate was opened: %+v", out)
	}
}

// Processes of which none lasts for a lease have the gate opened together, and never before they have lasted for one.
// Those of the same moment do not count twice.
func TestShortProcessesOpenTheGateTogether(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	uri := "redis://" + server.Addr
	claim(t, storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second}), "g/before")
	for _, before := range []struct {
		name   string
		happen func()
	}{
		{"the server is started again", func() { server.Kill(); server.Start() }},
		{"and once more, when they have waited for most of a lease", func() {
			for range 3 {
				shortProcesses(t, uri)
			}
			server.Kill()
			server.Start()
		}},
		{"the gate keeps the time of another identity", func() {
			server.Kill()
			server.Start()
			do(t, server.Addr, "HSET", "shardctl:{default}:gate", "waitedAt", "run/repl/0+0 1", "waited", "100000")
		}},
		{"the gate keeps what somebody has written into it", func() {
			server.Kill()
			server.Start()
			do(t, server.Addr, "HSET", "shardctl:{default}:gate", "waitedAt", "", "waited", "for ever")
		}},
	} {
		t.Run(before.name, func(t *testing.T) {
			before.happen()
			var all time.Duration
			for rounds := 1; ; rounds++ {
				began := time.Now()
				claimed := shortProcesses(t, uri)
				all += time.Since(began)
				switch {
				case claimed && all < lease:
					t.Fatalf("a key was claimed when processes had waited for %v: want %v", all, lease)
				case claimed:
					t.Logf("a key was claimed in round %d, after %v", rounds, all.Round(time.Millisecond))
					return
				case rounds == 20:
					t.Fatalf("no key was claimed in %d rounds, which took %v", rounds, all)
				}
			}
		})
	}
}

// shortProcesses are two processes that try to claim a key for a quarter of a lease and end. It reports whether one of
// them has.
func shortProcesses(t *testing.T, uri string) bool {
	t.Helper()
	claimed := make(chan bool)
	for range 2 {
		go func() {
			s, err := store.Open(t.Context(), driver.Config{URI: uri, Timeout: time.Second})
			if err != nil {
				t.Error(err)
				claimed <- false
				return
			}
			applied := false
			for began := time.Now(); !applied && time.Since(began) < lease/4; time.Sleep(10 * time.Millisecond) {
				at, err := s.Read(t.Context(), driver.KindLock, "none")
				if err != nil {
					continue
				}
				outs, err := s.Apply(t.Context(), lock("g/"+testservers.Name(), at.Floor+1, lease))
				applied = err == nil && outs[0].Status == driver.Applied
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			claimed <- applied
		}()
	}
	one, two := <-claimed, <-claimed
	return one || two
}

// A restart may have lost writes: another lineage, and no claims for a lease. Claims of before are known by it.
func TestARestartIsAnotherHistory(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	s := storetest.Open(t, driver.Config{URI: server.Database(), Timeout: time.Second})
	before := floor(t, s)
	claim(t, s, "g/a")
	server.Kill()
	server.Start()
	after := floor(t, s)
	if after.Lineage == before.Lineage || after.Lineage == "" {
		t.Fatalf("lineage %q after the restart, before %q", after.Lineage, before.Lineage)
	}
	decided := lock("g/b", after.Floor+1, 0)
	decided.Lineage = before.Lineage
	out := apply(t, s, decided)
	if out.Status != driver.Unknown || out.Lineage != after.Lineage || !errors.Is(out.Err, driver.ErrUnavailable) {
		t.Errorf("a change that was decided before: %+v", out)
	}
	res, err := s.Read(t.Context(), driver.KindLock, "g/b")
	if err != nil || len(res.Docs) > 0 {
		t.Errorf("it was written: %+v, %v", res.Docs, err)
	}
	decided.Lineage = after.Lineage
	must(t, s, decided, driver.Applied)
	if out := apply(t, s, lock("g/c", after.Floor+60_000, lease)); out.Status != driver.Unknown {
		t.Errorf("a claim at once after the restart: %+v", out)
	}
	claim(t, s, "g/c")
}

// What was read in one lineage is not good in another one, and the largest revision is not forgotten.
func TestRevisionsGoOnAboveWhatWasKnown(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	s := storetest.Open(t, driver.Config{URI: server.Database(), Timeout: time.Second})
	high := floor(t, s).Floor + 3_600_000
	must(t, s, lock("g/a", high, 0), driver.Applied)
	do(t, server.Addr, "FLUSHALL")
	if got := floor(t, s).Floor; got <= high {
		t.Errorf("floor %d after all was deleted, want above %d", got, high)
	}
}

// A master that takes over may have a clock that is behind. The next reply has a revision that may be claimed with.
func TestTheGateOpensAboveItsMark(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	s := storetest.Open(t, driver.Config{URI: "redis://" + server.Addr})
	mark := floor(t, s).Floor + 3_600_000
	do(t, server.Addr, "HSET", "shardctl:{default}:gate", "high", mark)
	if rev := claim(t, s, "g/a"); rev <= mark {
		t.Errorf("claimed with %d, want more than %d", rev, mark)
	}
}

// Replicas repeat all their claims while they wait for the gate. One of them is sent; when the gate is open, all are.
func TestClaimsThatWaitForTheGateAreNotAllSent(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	s := storetest.Open(t, driver.Config{URI: "redis://" + server.Addr})
	claims := func() (all []driver.Change) {
		from := floor(t, s).Floor
		for i := range driver.MaxBatch {
			all = append(all, lock("g/"+itoa(i), from+1+int64(i), lease))
		}
		return all
	}
	received := func(send []driver.Change) (bytes int, outs []driver.Outcome) {
		t.Helper()
		count := func() int {
			n, err := strconv.Atoi(info(t, server.Addr)["total_net_input_bytes"])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := count()
		outs, err := s.Apply(t.Context(), send...)
		if err != nil {
			t.Fatal(err)
		}
		return count() - before, outs
	}
	all, _ := received(claims())
	one, outs := received(claims())
	if one > all/10 {
		t.Errorf("a closed gate was sent %d bytes of claims, then %d: want one claim of them", all, one)
	}
	for _, out := range outs {
		if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "claimed again in") {
			t.Fatalf("a claim at a closed gate: %+v", out)
		}
	}
	claim(t, storetest.Open(t, driver.Config{URI: "redis://" + server.Addr}), "g/first")
	_, outs = received(claims())
	for _, out := range outs {
		if out.Status != driver.Applied {
			t.Fatalf("a claim at an open gate: %+v", out)
		}
	}
}
