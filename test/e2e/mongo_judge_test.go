//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// before is how a cluster stood when a fault began.
type before struct {
	at       history.Instant
	wall     time.Time
	owners   map[string]history.Run
	sessions map[string]string // by instance
}

func now(c *setCluster) before {
	GinkgoHelper()
	b := before{at: history.Now(), wall: time.Now(), sessions: map[string]string{}}
	b.owners = Load(c.Cluster).OwnersAt(b.at)
	for _, run := range b.owners {
		b.sessions[run.Instance] = run.Session
	}
	return b
}

// expectUndisturbed wants nothing to have started since, and every lease to have been kept.
func (b before) expectUndisturbed(ctx context.Context, c *setCluster) {
	GinkgoHelper()
	Eventually(func() map[string]history.Run { return Load(c.Cluster).Owners() }).
		Should(HaveLen(c.Tasks), "every task still runs; on a busy machine it may record late")
	b.expectLeasesKept(ctx, c)
	if len(b.lost(ctx, c)) == 0 {
		Expect(Load(c.Cluster).Started(b.at, history.Now())).To(BeEmpty(), "a task was restarted or moved")
	}
}

// lost are the replicas that ran tasks then and lost their lease since. They live and have another session, or have
// ended otherwise than in order.
func (b before) lost(ctx context.Context, c *setCluster) []string {
	GinkgoHelper()
	instances, err := c.Live()[0].Client.Instances(ctx)
	Expect(err).NotTo(HaveOccurred())
	var lost []string
	for _, r := range c.all {
		was, ran := b.sessions[r.Name]
		switch {
		case !ran:
		case !r.Running():
			if ended, err := r.Wait(ctx); err != nil || !ended.Success() {
				lost = append(lost, r.Name)
			}
		case !slices.ContainsFunc(instances, func(in harness.Instance) bool { return in.Session == was }):
			lost = append(lost, r.Name)
		}
	}
	return lost
}

// lapsed are the replicas that could not renew their lease since and cancelled their tasks, whether or not they lost
// their session after that. One that was to leave, and had no answers to leave in order within its time, is one too.
func (b before) lapsed(c *setCluster) []string {
	var lapsed []string
	for _, r := range c.all {
		for line := range strings.Lines(r.Log()) {
			if !slices.ContainsFunc(lapses, func(text string) bool { return strings.Contains(line, text) }) {
				continue
			}
			var entry struct{ TS time.Time }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.TS.After(b.wall) {
				lapsed = append(lapsed, r.Name)
				break
			}
		}
	}
	return lapsed
}

// lapses are what a replica or its guard says when a lease, or the time to leave in order, is over.
var lapses = []string{"Cannot renew the lease", "The lease was not renewed", "The shutdown took too long"}

// reasons are what a replica says when its lease has truly run out, or its guard has not heard of it for T/4.
var reasons = []string{
	"Cannot renew the lease", "The lease was not renewed", "The session was ended by another", "the guard was silent",
	"The worker has died",
}

// overloaded says whether this machine has far more to do than it can: then leases run out that would not elsewhere.
func overloaded() bool {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return false
	}
	load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	return err == nil && load > 4*float64(runtime.NumCPU())
}

// expectLeasesKept wants every replica to have kept its session since, except one that leaves in order. On a machine
// that is overloaded it is enough that the lease of each that did not has truly run out, by its own words.
func (b before) expectLeasesKept(ctx context.Context, c *setCluster) {
	GinkgoHelper()
	lost := b.lost(ctx, c)
	if len(lost) == 0 {
		return
	}
	Expect(overloaded()).To(BeTrue(), "%v lost their leases, and the machine is not to blame", lost)
	for _, r := range c.all {
		if slices.Contains(lost, r.Name) {
			Expect(slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(r.Log(), reason) })).
				To(BeTrue(), "%s gave its session up, and its lease had not run out", r.Name)
		}
	}
	Figure("mongodb", "%s: on an overloaded machine the leases of %v ran out", CurrentSpecReport().LeafNodeText, lost)
}

// expectOnlyMoves wants every start since to be one of a key that was moved, and at most so many of them in all. Starts
// on a replica whose lease ran out meanwhile do not count, and then there is no most. Those in lapsed have said so.
//
// A key may come back to where it was. A replica that drains waits only a moment for its word to be taken (P4). One
// that does not know of it yet may hand a key to it, since it seems to have free capacity. That is a move and its
// return, not a restart: the key was released in order.
func (b before) expectOnlyMoves(ctx context.Context, c *setCluster, most int, lapsed ...string) {
	GinkgoHelper()
	h, lost := Load(c.Cluster), append(b.lost(ctx, c), lapsed...)
	moves, returned := 0, 0
	for _, key := range h.Keys() {
		runs := h.Runs(key)
		for i, run := range runs {
			if run.Start < b.at || slices.Contains(lost, run.Instance) {
				continue
			}
			moves++
			Expect(i).To(BeNumerically(">", 0), "%v is the first", run)
			if run.Instance == runs[i-1].Instance {
				returned++
				Expect(c.released(runs[i-1])).To(
					BeTrue(), "%v was restarted in its place, and the lease had not run out", run,
				)
			}
		}
	}
	if returned > 0 {
		Figure(
			"mongodb", "%s: %d keys were handed to the one that left, and came back", CurrentSpecReport().LeafNodeText,
			returned,
		)
	}
	if len(lost) == 0 {
		// Anyone who takes a key back that it gave away has one more than its share until the next is given away.
		Expect(moves).To(
			BeNumerically("<=", most+2*returned),
			"keys moved more often than one replica's coming and another's going asks for",
		)
	}
}

// released says whether the lock of a run that is over was given up in order, to be taken by another.
func (c *setCluster) released(run history.Run) bool {
	token, key := fmt.Sprintf(`"token":%d,`, run.Token), fmt.Sprintf(`"key":%q`, run.Key)
	for _, r := range c.all {
		if r.Name != run.Instance {
			continue
		}
		for line := range strings.Lines(r.Log()) {
			if strings.Contains(line, `"msg":"Released"`) && strings.Contains(line, key) &&
				strings.Contains(line, token) {
				return strings.Contains(line, `"reason":"Balance"`)
			}
		}
	}
	return false
}

// stayed is how many keys run now where they ran then.
func (b before) stayed(c *setCluster) int {
	GinkgoHelper()
	owners, same := Load(c.Cluster).Owners(), 0
	for key, run := range b.owners {
		if owners[key].Instance == run.Instance {
			same++
		}
	}
	return same
}

// lastStart is when the last of the first starts of each key since then was.
func (b before) lastStart(c *setCluster) history.Instant {
	GinkgoHelper()
	h := Load(c.Cluster)
	_, last := h.FirstStarts(h.Keys(), b.at)
	return last
}

// lastStartAfter is when the last run since t was started, t if there is none.
func (b before) lastStartAfter(c *setCluster, t history.Instant) history.Instant {
	GinkgoHelper()
	return Load(c.Cluster).LastStart(t, history.Now())
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

// checkLocks says whether each key is locked by exactly the session that runs it, and not reserved.
func (c *setCluster) checkLocks(ctx context.Context) error {
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
	owners := h.Owners()
	for _, lock := range locks {
		if lock.Session != owners[lock.ID].Session || lock.Next != "" {
			return fmt.Errorf(
				"%s is locked by %q (next %q) and run by %q", lock.ID, lock.Session, lock.Next, owners[lock.ID].Session,
			)
		}
		delete(owners, lock.ID)
	}
	if len(owners) > 0 {
		return fmt.Errorf("no locks of %v", slices.Sorted(maps.Keys(owners)))
	}
	return nil
}

// expectSound ends every scenario: all keys run, evenly, and each lock is owned by who runs its key.
func (c *setCluster) expectSound(ctx context.Context) {
	GinkgoHelper()
	c.balanced(ctx)
	for _, r := range c.Live() {
		Eventually(func() (harness.Status, error) { return r.Client.Status(ctx) }).Should(
			HaveField("Store.Reachable", true),
		)
	}
}
