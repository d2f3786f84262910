package weights

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// locks are what a follower sees, of a group with the task a.
type locks struct {
	mu       sync.Mutex
	messages int64
	blind    bool
}

func (l *locks) set(messages int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = messages
}

func (l *locks) see() (seen map[string]Seen, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return map[string]Seen{"a": {Lag: behind(l.messages, 0)}}, !l.blind
}

func followerOf(t *testing.T, db store.Store, name string, l *locks) Follower {
	t.Helper()
	return Follower{
		Store: db, Group: "g", Instance: name, Rules: Lag.Rules(), See: l.see, Logger: testr.New(t),
	}
}

func levelIn(t *testing.T, db store.Store) (level int, p Published) {
	t.Helper()
	p, err := NewReader(db, "g").Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return Levels(p.Entries)["a"], p
}

// follow runs a follower until stop is called, which says how it ended.
func follow(t *testing.T, f Follower, token int64) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, token) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, lags := memory.New(), &locks{}
		stop := follow(t, followerOf(t, db, "r1", lags), 3)
		time.Sleep(10 * time.Minute)
		if _, p := levelIn(t, db); p.Revision != 0 {
			t.Errorf("published %+v although nothing is behind", p)
		}
		lags.set(1_000_000)
		time.Sleep(3 * time.Minute)
		level, p := levelIn(t, db)
		age := time.Since(time.UnixMilli(p.Status.At))
		if level != MaxLevel || p.Revision > 4 || p.Status.By != "r1" || age > 3*time.Minute {
			t.Errorf("level %d, %+v", level, p)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		// The next one, under a larger token, begins where the last one ended. An older one ends.
		stop = follow(t, followerOf(t, db, "r2", lags), 4)
		time.Sleep(time.Minute)
		if again, now := levelIn(t, db); again != level || now.Revision != p.Revision {
			t.Errorf("level %d, %+v", again, now)
		}
		lags.set(0)
		time.Sleep(40 * time.Minute)
		if level, p = levelIn(t, db); level != MaxLevel-1 || p.Status.By != "r2" {
			t.Errorf("level %d, %+v", level, p)
		}
		if err := followerOf(t, db, "r1", lags).Run(t.Context(), 3); !errors.Is(err, published.ErrOvertaken) {
			t.Errorf("the stale follower ended with %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Two followers that both believe to hold the lock: one publishes, and the other takes that up or ends. Answers that
// are lost and a store that is away change nothing for long.
func TestFollowersRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, lags := memory.New(), &locks{}
		lags.set(1_000_000)
		client, random := db.Client(), rand.New(rand.NewPCG(5, 6))
		client.Fault(func(memory.Call) memory.Verdict {
			if random.IntN(4) == 0 {
				return memory.Verdict{Fault: memory.LoseAnswer}
			}
			return memory.Verdict{}
		})
		first, second := follow(t, followerOf(t, client, "r1", lags), 3),
			follow(t, followerOf(t, client, "r2", lags), 4)
		last := int64(0)
		for range 120 {
			time.Sleep(5 * time.Second)
			_, p := levelIn(t, db)
			if p.Revision < last {
				t.Errorf("revision %d after %d", p.Revision, last)
			}
			last = p.Revision
		}
		level, p := levelIn(t, db)
		if level != MaxLevel || last > 4 {
			t.Errorf("level %d at revision %d", level, last)
		}
		// No one overtook the first where the second found everything published.
		if err := first(); errors.Is(err, published.ErrOvertaken) != (p.Status.By == "r2") {
			t.Errorf("%s published last, and the one with the smaller token ended with %v", p.Status.By, err)
		}
		if err := second(); err != nil {
			t.Error(err)
		}
	})
}

// Documents deleted out of band are there again within half a minute, with what was known of them.
func TestWeightsDeletedOutOfBand(t *testing.T) {
	for _, id := range []string{"~weights/g", "~weights/g/1-0"} {
		synctest.Test(t, func(t *testing.T) {
			db, lags := memory.New(), &locks{}
			lags.set(2000)
			stop := follow(t, followerOf(t, db, "r1", lags), 3)
			time.Sleep(2 * time.Minute)
			level, p := levelIn(t, db)
			if level != 1 || p.Revision != 1 {
				t.Fatalf("level %d, %+v", level, p)
			}
			found, err := db.Read(t.Context(), driver.KindValue, id)
			if err != nil || len(found.Docs) != 1 {
				t.Fatal(found, err)
			}
			gone := found.Docs[0]
			remove := driver.Change{Op: driver.Delete, IfRev: gone.Rev, Doc: driver.Doc{Kind: gone.Kind, ID: gone.ID}}
			if _, err := db.Apply(t.Context(), remove); err != nil {
				t.Fatal(err)
			}
			time.Sleep(45 * time.Second)
			if level, p := levelIn(t, db); level != 1 {
				t.Errorf("%s: level %d, %+v", id, level, p)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A follower that sees nothing, as before the locks are read, changes nothing.
func TestABlindFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, lags := memory.New(), &locks{messages: 1_000_000, blind: true}
		stop := follow(t, followerOf(t, db, "r1", lags), 3)
		time.Sleep(10 * time.Minute)
		if _, p := levelIn(t, db); p.Revision != 0 {
			t.Errorf("%+v", p)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
