//go:build linux

package mongo_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// before is how a cluster stood when a fault began.
type before struct {
	at       history.Instant
	owners   map[string]history.Run
	sessions map[string]string // by instance
}

func now(c *cluster) before {
	GinkgoHelper()
	b := before{at: history.Now(), sessions: map[string]string{}}
	b.owners = Load(c.Cluster).OwnersAt(b.at)
	for _, run := range b.owners {
		b.sessions[run.Instance] = run.Session
	}
	return b
}

// expectUndisturbed wants nothing to have started since.
func (b before) expectUndisturbed(c *cluster) {
	GinkgoHelper()
	h := Load(c.Cluster)
	Expect(h.Started(b.at, history.Now())).To(BeEmpty(), "a task was restarted or moved")
	Expect(h.OwnersAt(history.Now())).To(HaveLen(c.Tasks), "every task still runs")
}

// expectLeasesKept wants every replica that lived then and lives now to have kept its session: a session that is given up is a
// lease that ran out.
func (b before) expectLeasesKept(ctx context.Context, c *cluster) {
	GinkgoHelper()
	Expect(b.lost(ctx, c)).To(BeEmpty(), "replicas that gave their session up")
}

// lost are the replicas that lived then, live now, and have another session.
func (b before) lost(ctx context.Context, c *cluster) []string {
	GinkgoHelper()
	instances, err := c.Live()[0].Client.Instances(ctx)
	Expect(err).NotTo(HaveOccurred())
	var lost []string
	for _, in := range instances {
		if was, ok := b.sessions[in.Name]; ok && in.State == "live" && in.Session != was {
			lost = append(lost, in.Name)
		}
	}
	return lost
}

// expectOnlyMoves wants every start since to be one of a key that came from another replica, and at most so many of them in all. Starts
// on a replica whose lease ran out meanwhile do not count.
func (b before) expectOnlyMoves(ctx context.Context, c *cluster, most int) {
	GinkgoHelper()
	h, lost := Load(c.Cluster), b.lost(ctx, c)
	moves := 0
	for _, key := range h.Keys() {
		runs := h.Runs(key)
		for i, run := range runs {
			if run.Start < b.at || slices.Contains(lost, run.Instance) {
				continue
			}
			moves++
			Expect(i).To(BeNumerically(">", 0), "%v is the first", run)
			Expect(run.Instance).NotTo(Equal(runs[i-1].Instance), "%v was restarted in its place, and the lease had not run out", run)
		}
	}
	if len(lost) == 0 {
		Expect(moves).To(BeNumerically("<=", most), "keys moved more often than one replica's coming and another's going asks for")
	}
}

// stayed is how many keys run now where they ran then.
func (b before) stayed(c *cluster) int {
	GinkgoHelper()
	owners, same := Load(c.Cluster).OwnersAt(history.Now()), 0
	for key, run := range b.owners {
		if owners[key].Instance == run.Instance {
			same++
		}
	}
	return same
}

// lastStart is when the last of the first starts of each key since then was.
func (b before) lastStart(c *cluster) history.Instant {
	GinkgoHelper()
	h, last := Load(c.Cluster), b.at
	for _, key := range h.Keys() {
		for _, run := range h.Runs(key) {
			if run.Start >= b.at {
				last = max(last, run.Start)
				break
			}
		}
	}
	return last
}

// aliveAfter are the runs of any replica that gave a sign of life after t.
func aliveAfter(h *history.History, t history.Instant) []history.Run {
	var alive []history.Run
	for _, key := range h.Keys() {
		for _, run := range h.Runs(key) {
			if run.End > t {
				alive = append(alive, run)
			}
		}
	}
	return alive
}

// checkLocks says whether each key is locked by exactly the session that runs it, and reserved for nobody.
func (c *cluster) checkLocks(ctx context.Context) error {
	client, err := mongo.Connect(options.Client().ApplyURI(c.rs.URI()))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	cursor, err := client.Database(c.database).Collection("e2e.locks").Find(ctx, bson.D{})
	if err != nil {
		return err
	}
	var locks []struct {
		ID, Session, Next string
	}
	for cursor.Next(ctx) {
		raw := cursor.Current
		text := func(field string) string { s, _ := raw.Lookup(field).StringValueOK(); return s }
		locks = append(locks, struct{ ID, Session, Next string }{text("_id"), text("session"), text("next")})
	}
	if err := cursor.Err(); err != nil {
		return err
	}
	h, err := c.History()
	if err != nil {
		return err
	}
	owners := h.OwnersAt(history.Now())
	for _, lock := range locks {
		if lock.Session != owners[lock.ID].Session || lock.Next != "" {
			return fmt.Errorf("%s is locked by %q (next %q) and run by %q", lock.ID, lock.Session, lock.Next, owners[lock.ID].Session)
		}
		delete(owners, lock.ID)
	}
	if len(owners) > 0 {
		return fmt.Errorf("no locks of %v", slices.Sorted(maps.Keys(owners)))
	}
	return nil
}

// expectSound ends every story: all keys run, evenly, each lock owned by who runs its key, and never did two run at once.
func (c *cluster) expectSound(ctx context.Context) {
	GinkgoHelper()
	c.balanced(ctx)
	ExpectOneRunEach(c.Cluster)
	for _, r := range c.Live() {
		Expect(r.Client.Status(ctx)).To(HaveField("Store.Reachable", true))
	}
}
