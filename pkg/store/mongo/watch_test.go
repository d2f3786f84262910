package mongo_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

func nextNotification(t *testing.T, notifications <-chan driver.Notification) driver.Notification {
	t.Helper()
	select {
	case h, ok := <-notifications:
		if !ok {
			t.Fatal("the watch ended")
		}
		return h
	case <-time.After(20 * time.Second):
		t.Fatal("no notification")
	}
	return driver.Notification{}
}

// A reader that sleeps gets a Resync in place of what it missed, and then goes on.
func TestWatchSlowReader(t *testing.T) {
	s := storetest.Open(t, driver.Config{URI: testmongo.SharedByThree(t)})
	notifications, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
	must(t, err)
	for round := range 5 {
		var changes []driver.Change
		for i := range 200 {
			changes = append(
				changes,
				driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: fmt.Sprint("g", i)}},
			)
		}
		changes = append(
			changes,
			driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: fmt.Sprint("round", round)}},
		)
		apply(t, s, patient, driver.Applied, changes...)
	}
	resyncs, last := 0, false
	for !last {
		h := nextNotification(t, notifications)
		if h.Resync {
			resyncs++
		}
		last = h.ID == "round4" || resyncs > 1 // the first Resync is the beginning
	}
	if resyncs < 1 {
		t.Error("no Resync")
	}
}

// A collection that is dropped under the watch makes everybody look again.
func TestWatchSurvivesNoDrop(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, driver.Config{URI: uri})
	notifications, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
	must(t, err)
	nextNotification(t, notifications)
	must(t, rawDatabase(t, uri).Collection("default.overrides").Drop(t.Context()))
	if h := nextNotification(t, notifications); !h.Resync {
		t.Errorf("notification %+v, want a Resync", h)
	}
	must(t, rawDatabase(t, uri).Drop(t.Context()))
	for range notifications { // ends, or the test does not
	}
}

// A watch that breaks each time that it is opened is one line of the log, until one works again.
func TestBreakIsLoggedOnce(t *testing.T) {
	rs, uri, _ := faulty(t)
	var mu sync.Mutex
	lines := 0
	s := storetest.Open(t, driver.Config{URI: uri, Logger: funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, "The watch broke") {
			lines++
		}
	}, funcr.Options{})})
	logged := func() int {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
	watch := func() <-chan driver.Notification {
		notifications, err := s.Watch(t.Context(), driver.Interest{})
		must(t, err)
		return notifications
	}
	end := func(notifications <-chan driver.Notification) {
		for range notifications { // until it breaks
		}
	}
	fail := bson.M{"failCommands": bson.A{"getMore"}, "errorCode": 1}
	must(t, rs.FailCommand(t.Context(), 1_000_000, fail))
	for range 3 {
		end(watch())
	}
	if n := logged(); n != 1 {
		t.Errorf("%d lines for three breaks, want 1", n)
	}
	must(t, rs.FailCommand(t.Context(), 0, nil))
	notifications := watch()
	nextNotification(t, notifications) // the first Resync
	apply(t, s, patient, driver.Applied, driver.Change{
		Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"},
	})
	nextNotification(t, notifications)
	must(t, rs.FailCommand(t.Context(), 1_000_000, fail))
	end(notifications)
	if n := logged(); n != 2 {
		t.Errorf("%d lines after a break that followed on a watch that worked, want 2", n)
	}
}
