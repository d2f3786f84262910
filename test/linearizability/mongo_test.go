package linearizability

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/test/testmongo"
)

func mongoDatabase(rs *testmongo.ReplicaSet, name string) database {
	uri := testmongo.WithDatabase(rs.URI(), name)
	return database{name: "MongoDB", open: func(ctx context.Context) (store.Store, error) {
		return opened(mongo.Open(ctx, mongo.Options{URI: uri, Timeout: 3 * time.Second}))
	}}
}

// mongoFaults does to a replica set what happens to replica sets, by seed, until it is asked to end.
type mongoFaults struct {
	rs       *testmongo.ReplicaSet
	random   *rand.Rand
	injected *injected
	hard     time.Time // no election before
}

// Elections cost everybody a second or two; in between, much else is to be tried.
const betweenElections = 5 * time.Second

func (f *mongoFaults) run(ctx context.Context) {
	defer f.end(ctx)
	f.hard = time.Now().Add(betweenElections / 2)
	for f.pause(ctx, 100, 800) {
		if time.Now().After(f.hard) {
			f.election(ctx)
			f.hard = time.Now().Add(betweenElections)
			continue
		}
		f.commands(ctx)
	}
}

func (f *mongoFaults) pause(ctx context.Context, from, to int) bool {
	return pauseBetween(ctx, f.random, from, to)
}

// commands makes some of the commands of the store fail for a while.
func (f *mongoFaults) commands(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all := [][]string{
		{"insert"},
		{"update"},
		{"delete"},
		{"find"},
		{"insert", "update", "delete"},
		{"insert", "update", "delete", "find", "getMore"},
	}
	data := map[string]any{"failCommands": all[f.random.IntN(len(all))]}
	name := ""
	switch f.random.IntN(6) {
	case 0:
		f.injected.add("answers of writes lost")
		_ = f.rs.LoseAnswers(limited, 1+f.random.IntN(20))
		return
	case 1, 2:
		name, data["closeConnection"] = "connections closed", true
	case 3:
		name = "write concern errors"
		data["failCommands"] = all[4]
		data["writeConcernError"] = map[string]any{
			"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out",
		}
	case 4:
		name, data["blockConnection"], data["blockTimeMS"] = "commands held up", true, 5+f.random.IntN(150)
	case 5:
		name, data["errorCode"] = "not primary", 10107
	}
	f.injected.add(name)
	// It may fail when there is no primary just now: then that is the fault.
	_ = f.rs.FailPoint(
		limited, "failCommand", testmongo.Sometimes(0.02+0.4*f.random.Float64()*f.random.Float64()), data,
	)
	f.pause(ctx, 200, 1200)
	f.end(ctx)
}

func (f *mongoFaults) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	_ = f.rs.EndFailPoints(ctx) // a node that is down has none
}

// election makes the primary give up its office, stand still for a while or die.
func (f *mongoFaults) election(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	primary, err := f.rs.Primary(ctx)
	if err != nil {
		return
	}
	switch f.random.IntN(6) {
	case 0, 1:
		f.injected.add("primary steps down")
		_ = f.rs.StepDown(ctx)
	case 2, 3:
		f.injected.add("primary stands still")
		primary.Freeze()
		f.pause(ctx, 50, 3000)
		primary.Thaw()
	case 4:
		f.injected.add("primary dies")
		primary.Kill()
		f.pause(ctx, 50, 1500)
		_ = primary.Restart(ctx)
	case 5:
		f.injected.add("primary is left alone, then deposed")
		f.rollback(ctx, primary)
	}
}

// rollback has the primary take writes that no other node has, and lose its role before it can pass them on. It has to
// take them back.
func (f *mongoFaults) rollback(ctx context.Context, primary *testmongo.Node) {
	for _, n := range f.rs.Nodes() {
		if n != primary {
			n.Freeze()
		}
	}
	f.pause(ctx, 50, 600)
	primary.Freeze()
	for _, n := range f.rs.Nodes() {
		if n != primary {
			n.Thaw()
		}
	}
	limited, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	_, _ = f.rs.Primary(limited) // none in time: then it stays what it was
	primary.Thaw()
}

func TestMongoDB(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	rs := testmongo.New(t, testmongo.Options{Own: true})
	faults := &mongoFaults{rs: rs, random: rand.New(rand.NewPCG(seed, 1000)), injected: &injected{}}
	whileRunning(t, faults.run)
	record(t, seed, mongoDatabase(rs, "documents"), mongoDatabase(rs, "locks"), faults.injected)
}
