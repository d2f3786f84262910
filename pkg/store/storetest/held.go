package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// notifications is the table of a SQL database that is of no kind.
const notifications = "notifications"

// patience bounds what has to happen, and says nothing about how soon it should: a machine may be busy.
const patience = 30 * time.Second

// HeldTables tests a SQL database while somebody has one of its tables to himself for longer than a lease, as VACUUM
// FULL and ALTER TABLE do. Each but that of sessions is one test.
type HeldTables struct {
	// Lease is that of the replicas.
	Lease time.Duration
	// HeartbeatsOnly says that only heartbeats, and looks at them, have to go on meanwhile, and not what needs yet
	// another table.
	HeartbeatsOnly bool
	// Open opens a store of a database of its own. hold takes the table whose name ends so, and returns once it has it.
	Open func(t *testing.T) (s driver.Store, hold func(table string) (release func()))
}

// Run runs the test.
func (all HeldTables) Run(t *testing.T) {
	t.Helper()
	tables := []string{notifications}
	for _, info := range driver.Table() {
		if info.Kind != driver.KindSession {
			tables = append(tables, info.Plural)
		}
	}
	for _, table := range tables {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s, hold := all.Open(t)
			h := &held{HeldTables: all, t: t, s: s, table: table}
			h.run(hold)
		})
	}
}

// held is a store of whose tables one is held.
type held struct {
	HeldTables
	t     *testing.T
	s     driver.Store
	table string
}

func (h *held) run(hold func(table string) (release func())) {
	heard, err := h.s.Watch(h.t.Context(), driver.Interest{Kinds: []driver.Kind{driver.KindGroup}})
	if err != nil {
		h.t.Fatal(err)
	}
	if !h.repeat(h.t.Context(), Heartbeat("mine", 0)) {
		h.t.FailNow()
	}
	release := hold(h.table)
	ctx, end := context.WithCancel(h.t.Context())
	defer end()
	var users sync.WaitGroup
	used := map[driver.Kind]*atomic.Int64{}
	for _, info := range driver.Table() {
		done := &atomic.Int64{}
		used[info.Kind] = done
		users.Go(func() { h.use(ctx, info.Kind, done) })
	}
	waits := h.sendHeartbeats(func() (waits string) {
		for _, info := range driver.Table() {
			needs := info.Plural == h.table || h.table == notifications && info.Notify != driver.NotifyNever
			if used[info.Kind].Load() == 0 && !needs && !h.HeartbeatsOnly {
				waits += " " + info.Plural
			}
		}
		return waits
	})
	if waits != "" {
		h.t.Errorf("while %s is held no write is acknowledged to%s", h.table, waits)
	}
	release()
	limited, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	for _, info := range driver.Table() {
		for n := used[info.Kind].Load(); used[info.Kind].Load() == n && limited.Err() == nil; {
			_ = h.pause(limited)
		}
	}
	end()
	users.Wait()
	for len(heard) > 0 {
		<-heard // of before
	}
	h.repeat(limited, increment("after"))
	for seen := false; !seen; {
		select {
		case n := <-heard:
			seen = n.Resync || n.ID == "after"
		case <-limited.Done():
			h.t.Fatalf("not all goes on within %v after %s was held", patience, h.table)
		}
	}
}

// sendHeartbeats writes as a replica does, and looks at the session each time: for longer than a lease, and until
// no one waits any more, who should not.
func (h *held) sendHeartbeats(waiting func() string) (waits string) {
	limit := h.Lease * 8 / 10
	tick := time.NewTicker(h.Lease / 10)
	defer tick.Stop()
	waits = waiting()
	begun := time.Now()
	for rev := int64(1); rev <= 11 || waits != "" && time.Since(begun) < patience; rev++ {
		// A busy machine may be late once. A lease lasts as long as one heartbeat of many comes through.
		limited, cancel := context.WithTimeout(h.t.Context(), limit)
		if !h.repeat(limited, Heartbeat("mine", rev)) {
			h.t.Errorf("no heartbeat within %v while %s is held", limit, h.table)
		}
		if err := h.look(limited, rev); err != nil {
			h.t.Errorf("a look at the session while %s is held: %v", h.table, err)
		}
		cancel()
		if h.t.Failed() {
			break
		}
		<-tick.C
		waits = waiting()
	}
	return waits
}

// look reads the session, which had so many heartbeats. It tries again for as long as ctx lasts.
func (h *held) look(ctx context.Context, heartbeats int64) error {
	for {
		limited, cancel := h.op()
		reply, err := h.s.Read(limited, driver.KindSession, "mine") //nolint:contextcheck // each call has a time of its own
		cancel()
		switch {
		case err != nil:
			if h.pause(ctx) != nil {
				return err
			}
		case len(reply.Docs) != 1 || reply.Docs[0].Count != heartbeats || reply.Now <= 0:
			return fmt.Errorf("%+v", reply)
		default:
			return nil
		}
	}
}

// use writes and reads documents of a kind, and counts what was acknowledged. Of sessions it opens one after the other,
// and marks each dead.
func (h *held) use(ctx context.Context, kind driver.Kind, done *atomic.Int64) {
	for n := int64(1); ctx.Err() == nil; n++ {
		id := fmt.Sprint("g/", n)
		c := driver.Change{Doc: driver.Doc{
			Kind: kind, ID: id, Group: "g", Rev: 1, WriterID: driver.WriterID{Session: "mine", Seq: n},
		}}
		dead := c
		if kind == driver.KindSession {
			c = Heartbeat(id, 0)
			dead.IfRev, dead.Doc.Rev, dead.Doc.State = 1, 2, "dead"
		}
		if h.repeat(ctx, c) && (kind != driver.KindSession || h.repeat(ctx, dead)) {
			done.Add(1)
		}
		limited, cancel := h.op()
		_, _ = h.s.List(limited, kind, driver.Query{NoBody: true, Limit: 10}) //nolint:contextcheck // as above
		cancel()
		_ = h.pause(ctx)
	}
}

// repeat applies a change at intervals until it is acknowledged, as long as ctx lasts.
func (h *held) repeat(ctx context.Context, c driver.Change) bool {
	for {
		switch out := h.apply(c); out.Status { //nolint:contextcheck // each call has a time of its own
		case driver.Applied:
			return true
		case driver.Unknown:
			if h.pause(ctx) != nil {
				return false
			}
		case driver.Refused, driver.Overtaken:
			h.t.Errorf("%s %s, which no one else writes: %s", c.Doc.Kind, c.Doc.ID, describe(out))
			return false
		}
	}
}

func (h *held) apply(c driver.Change) driver.Outcome {
	ctx, cancel := h.op()
	defer cancel()
	outs, err := h.s.Apply(ctx, c)
	if err != nil || len(outs) != 1 {
		h.t.Errorf("apply %s %s: %d outcomes, %v", c.Doc.Kind, c.Doc.ID, len(outs), err)
		return driver.Outcome{}
	}
	return outs[0]
}

// op bounds one call.
func (h *held) op() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.t.Context(), h.Lease/6)
}

// pause is that before a call is repeated.
func (h *held) pause(ctx context.Context) error { return clock.Sleep(ctx, h.Lease/40) }

// heartbeatBody is about as long as the body of a replica's session.
var heartbeatBody = []byte(`{"instance":"` + strings.Repeat("x", 250) + `"}`)

// Heartbeat returns the change that takes a live session from revision rev to the next; from 0 creates it. For tests of
// what heartbeats leave behind in a server.
func Heartbeat(session string, rev int64) driver.Change {
	return driver.Change{IfRev: rev, Doc: driver.Doc{
		Kind: driver.KindSession, ID: session, Rev: rev + 1, Count: rev, State: driver.StateLive, Body: heartbeatBody,
		WriterID: driver.WriterID{Session: session, Seq: rev + 1},
	}}
}
