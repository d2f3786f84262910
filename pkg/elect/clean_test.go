package elect_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A mutex that was unused for a day goes. What its tokens were stays known: one that is made again must exceed
// them.
func TestUnusedMutexesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		now := time.Now().UnixMilli()
		ahead := now + time.Hour.Milliseconds() // a token that the clock has not reached
		mutex := func(id string, rev, expires int64) {
			d := driver.Doc{
				Kind: driver.KindMutex, ID: id, Rev: rev, WriterID: driver.WriterID{Session: "s", Seq: rev},
				Expires: expires,
			}
			if outs, err := db.Apply(t.Context(), driver.Change{Doc: d}); err != nil || outs[0].Status != driver.Applied {
				t.Fatal(outs, err)
			}
		}
		mutex("locks/old", ahead, now+1)
		mutex("locks/used", now, 0)
		mutex("locks/young", now+2, now+time.Hour.Milliseconds())
		n := startAlone(t, db, "a")
		time.Sleep(6 * time.Minute)
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		left, err := db.List(t.Context(), driver.KindMutex, driver.Query{})
		if err != nil || len(left.Docs) != 2 || left.Docs[0].ID != "locks/used" || left.Docs[1].ID != "locks/young" {
			t.Errorf("left: %+v, %v", left.Docs, err)
		}
		counter, err := db.Read(t.Context(), driver.KindGroup, record.GroupMutexes)
		if err != nil || len(counter.Docs) != 1 || counter.Docs[0].Rev < ahead {
			t.Errorf("counter %+v, %v; want at least %d", counter.Docs, err, ahead)
		}
	})
}

// A request that was started stays while its caller may be at work, also when its time is over.
func TestStartedRequestsStayWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := startAlone(t, db, "a"), startAlone(t, db, "b")
		time.Sleep(lease)
		for id, session := range map[string]string{
			"lives": a.View().Session, "dead": b.View().Session,
			"gone": "gone",
		} {
			d := driver.Doc{
				Kind: driver.KindRequest, ID: id, Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1},
				Session: session,
				State:   record.RequestStarted, Expires: 1,
			}
			if outs, err := db.Apply(t.Context(), driver.Change{Doc: d}); err != nil || outs[0].Status != driver.Applied {
				t.Fatal(outs, err)
			}
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(6 * time.Minute)
		left, err := db.List(t.Context(), driver.KindRequest, driver.Query{})
		if err != nil || len(left.Docs) != 1 || left.Docs[0].ID != "lives" {
			t.Errorf("left: %+v, %v", left.Docs, err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Requests whose time is over go, also where there are more than fit into one batch.
func TestExpiredRequestsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		now := time.Now().UnixMilli()
		for i := range 1_201 {
			d := driver.Doc{
				Kind: driver.KindRequest, ID: fmt.Sprintf("%04d", i), Rev: now,
				WriterID: driver.WriterID{Session: "s", Seq: int64(i + 1)}, Expires: now + 1,
			}
			if i == 1_200 {
				d.Expires = now + time.Hour.Milliseconds()
			}
			if outs, err := db.Apply(t.Context(), driver.Change{Doc: d}); err != nil || outs[0].Status != driver.Applied {
				t.Fatal(outs, err)
			}
		}
		n := startAlone(t, db, "b")
		time.Sleep(6 * time.Minute)
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		left, err := db.List(t.Context(), driver.KindRequest, driver.Query{})
		if err != nil || len(left.Docs) != 1 || left.Docs[0].ID != "1200" {
			t.Errorf("left: %d, %v, want the one whose time is not over", len(left.Docs), err)
		}
	})
}

// Events that a clock has dated which was a year ahead count as of now, each once and in their order. A session that is
// dead since then goes after its hour.
func TestEventsAndDeathsOfAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		ahead := time.Now().Add(365 * 24 * time.Hour).UnixMilli()
		for i := range int64(3) {
			e := record.Event{ID: record.EventID(ahead+i, "s", i), Time: ahead + i, Type: "T", Message: fmt.Sprint(i)}
			write := driver.Change{Doc: e.Doc(driver.WriterID{Session: "s", Seq: i + 1})}
			if _, err := db.Apply(t.Context(), write); err != nil {
				t.Fatal(err)
			}
		}
		dead := record.Session{ID: "d", Rev: 1, State: record.Dead, Died: ahead}
		dead.WriterID = driver.WriterID{Session: "s", Seq: 9}
		if _, err := db.Apply(t.Context(), driver.Change{Doc: dead.Doc()}); err != nil {
			t.Fatal(err)
		}
		a, b := startAlone(t, db, "a"), startAlone(t, db, "b")
		time.Sleep(90 * time.Minute)
		for _, n := range []*node{a, b} {
			if err := n.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		found, err := db.List(t.Context(), driver.KindEvent, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, d := range found.Docs {
			e, err := record.EventFrom(d)
			if err != nil || e.Type != "T" {
				continue
			}
			said = append(said, e.Message)
			if week := 7 * 24 * time.Hour; e.Time >= ahead || d.Expires > time.Now().Add(week).UnixMilli() {
				t.Errorf("still ahead: %+v", e)
			}
		}
		if !slices.Equal(said, []string{"0", "1", "2"}) {
			t.Errorf("the events are %q", said)
		}
		left, err := db.Read(t.Context(), driver.KindSession, "d")
		if err != nil || len(left.Docs) != 0 {
			t.Errorf("the dead session stays: %+v, %v", left.Docs, err)
		}
	})
}
