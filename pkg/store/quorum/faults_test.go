package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/quorum"
)

func mustOpen(t *testing.T, m *memServers) *quorum.Store {
	t.Helper()
	s, err := m.quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	return s
}

func put(id string, ifRev, rev int64, writer int64) driver.Change {
	return driver.Change{IfRev: ifRev, Doc: driver.Doc{
		Kind: driver.KindLock, ID: id, Rev: rev, WriterID: driver.WriterID{Session: "w", Seq: writer},
	}}
}

// What somebody has edited on one server is as if that server did not answer for it. All others are answered for, also
// with a second server away.
func TestEditedRecordIsOneServersAlone(t *testing.T) {
	m := newMemory(3)
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	for i := range int64(5) {
		if out := apply(t, s, put(fmt.Sprint("g/", i), 0, 1, i)); out.Status != driver.Applied {
			t.Fatalf("%+v", out)
		}
	}
	edited := 0
	for ; ; edited++ { // the first server that has it: two do, and which ones depends on who was faster
		found, err := m.servers[edited].Read(t.Context(), driver.KindLock, "g/2")
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Docs) > 0 {
			break
		}
	}
	if err := spoil(t.Context(), m.servers[edited], driver.KindLock, "g/2"); err != nil {
		t.Fatal(err)
	}
	other := mustOpen(t, m) // it remembers no record
	eventually(t, func() error { return allCount(other) })
	list := func(docs, unreadable int) {
		t.Helper()
		found, err := other.List(t.Context(), driver.KindLock, driver.Query{})
		if err != nil || len(found.Docs) != docs || len(found.Unreadable) != unreadable {
			t.Fatalf("listed %d locks and %+v, %v; want %d and %d", len(found.Docs), found.Unreadable, err, docs,
				unreadable)
		}
	}
	list(5, 0)
	away := (edited + 1) % 3
	m.leave(away)
	list(4, 1)
	if out := apply(t, other, put("g/3", 1, 2, 10)); out.Status != driver.Applied {
		t.Fatalf("another lock: %+v", out)
	}
	m.back(away)
	list(5, 0)
	if out := apply(t, other, put("g/2", 1, 2, 11)); out.Status != driver.Applied {
		t.Fatalf("the lock itself: %+v", out)
	}
}

func apply(t *testing.T, s driver.Store, c driver.Change) driver.Outcome {
	t.Helper()
	outs, err := s.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return outs[0]
}

func wantRev(t *testing.T, s driver.Store, id string, rev int64) {
	t.Helper()
	reply, err := s.Read(t.Context(), driver.KindLock, id)
	if err != nil || len(reply.Docs) != 1 || reply.Docs[0].Rev != rev {
		t.Fatalf("read %s: %+v, %v; want revision %d", id, reply.Docs, err, rev)
	}
}

// Servers that do not answer do not slow the others down: far less time passes than a request may take.
func TestMinorityAwayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(5)
		s := mustOpen(t, m)
		m.leave(0, 4)
		begun := time.Now()
		for i := range int64(50) {
			if out := apply(t, s, put("g/a", i, i+1, i)); out.Status != driver.Applied {
				t.Fatalf("write %d: %+v", i, out)
			}
		}
		wantRev(t, s, "g/a", 50)
		if took := time.Since(begun); took > 8*time.Second { // one request may take ten
			t.Errorf("50 writes took %v", took)
		} else {
			t.Logf("50 writes took %v", took)
		}
	})
}

// Without a majority a write is unknown when its time is over. Nothing is lost when the servers come back.
func TestMajorityAway(t *testing.T) {
	t.Parallel()
	m := newMemory(5)
	s := mustOpen(t, m)
	if out := apply(t, s, put("g/a", 0, 1, 1)); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	m.leave(0, 1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	outs, err := s.Apply(ctx, put("g/a", 1, 2, 2))
	if err != nil || outs[0].Status != driver.Unknown || !errors.Is(outs[0].Err, driver.ErrUnavailable) {
		t.Fatalf("without a majority: %+v, %v", outs, err)
	}
	if _, err := s.Read(ctx, driver.KindLock, "g/a"); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("read without a majority: %v", err)
	}
	m.back(0, 1, 2)
	if out := apply(t, s, put("g/a", 1, 2, 2)); out.Status != driver.Applied { // the same write
		t.Fatalf("repeated: %+v", out)
	}
	wantRev(t, mustOpen(t, m), "g/a", 2)
}

// A document whose ballots were forgotten is changed under ballots that were never used before: two values under one
// would both be taken for the chosen one.
func TestForgottenBallotsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	s.KeepDocLocks(8)
	eventually(t, func() error { return allCount(s) })

	// Servers 2 and 3 promise the first ballot. Its acceptance reaches server 1 only.
	var off atomic.Bool
	m.mu.Lock()
	for _, i := range []int{1, 2} {
		for _, c := range m.clients[i] {
			var away atomic.Bool
			c.Fault(func(call memory.Call) memory.Verdict {
				accepts := slices.ContainsFunc(call.Changes, func(c driver.Change) bool {
					return c.Doc.ID == "g/a" && strings.Fields(c.Doc.WriterID.Session)[3] != "-"
				})
				if accepts {
					away.Store(true)
				}
				if away.Load() && !off.Load() {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	outs, err := s.Apply(ctx, put("g/a", 0, 10, 1))
	cancel()
	if err != nil || outs[0].Status != driver.Unknown {
		t.Fatalf("%+v, %v", outs, err)
	}
	off.Store(true)
	for i := range int64(100) { // until it has forgotten g/a
		apply(t, s, put(fmt.Sprint("g/other", i), 0, 1, 100+i))
	}
	m.leave(0)
	if out := apply(t, s, put("g/a", 0, 20, 2)); out.Status != driver.Applied {
		t.Fatalf("another creation: %+v", out)
	}
	m.back(0)
	for away := range 3 {
		other := mustOpen(t, m)
		m.leave(away)
		wantRev(t, other, "g/a", 20)
		m.back(away)
	}
}

// Servers that are slow are waited for, also while another one is gone: a long list may take them seconds.
func TestSlowServersAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(3)
		s := mustOpen(t, m)
		time.Sleep(time.Second)
		m.mu.Lock()
		for i, clients := range m.clients {
			for _, c := range clients {
				c.Fault(func(memory.Call) memory.Verdict {
					if i == 0 {
						return memory.Verdict{Fault: memory.LoseRequest}
					}
					return memory.Verdict{AnswerDelay: time.Second}
				})
			}
		}
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if outs, err := s.Apply(ctx, put("g/a", 0, 1, 1)); err != nil || outs[0].Status != driver.Applied {
			t.Errorf("written: %+v, %v", outs, err)
		}
		if found, err := s.List(ctx, driver.KindLock, driver.Query{}); err != nil || len(found.Docs) != 1 {
			t.Errorf("listed: %+v, %v", found.Docs, err)
		}
	})
}
