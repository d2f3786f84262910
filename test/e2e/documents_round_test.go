//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

const (
	editedReplicas = 3
	editedTasks    = 12
	// noticed is by when everything that is looked at now and then has been looked at.
	noticed = Lease + Lease/4
	// twice is how long two runs of a key may go on at once where they may at all. It is T/2, and what a busy machine
	// adds.
	twice = Lease/2 + time.Second
)

// scene is the cluster that all rounds of one store are about.
type scene struct {
	hand

	store   string
	c       *harness.Cluster
	workers map[string]harness.Proc
	rounds  []*round       // in which two runs of a key at once are allowed
	logged  map[string]int // bytes of log before the round
	began   history.Instant
}

// round is one in which locks are taken from living owners: old and new run until the old notices.
type round struct{ began, ended history.Instant }

// covers says whether an overlap came of it.
func (r *round) covers(o history.Overlap) bool {
	return o.Later.Start >= r.began && (r.ended == 0 || o.Later.Start < r.ended)
}

// start has its replicas run.
func (s *scene) start(ctx context.Context, uri string) {
	GinkgoHelper()
	s.workers = map[string]harness.Proc{}
	s.c = NewCluster("documents-"+s.store, harness.Options{StoreURI: uri, Tasks: editedTasks})
	Expect(s.c.Add(ctx, editedReplicas)).To(Succeed())
	Eventually(s.c.CheckSpread).WithContext(ctx).WithArguments(editedTasks).Should(Succeed())
	for _, r := range s.c.Live() {
		worker, err := r.WorkerProc()
		Expect(err).NotTo(HaveOccurred())
		s.workers[r.Name] = worker
	}
	if s.store == "sqlite" {
		s.hand = newSQLiteHand(uri)
	} else {
		s.hand = newMongoHand(uri)
	}
}

// begin notes how things are before a round.
func (s *scene) begin() {
	s.logged = map[string]int{}
	for _, r := range s.c.Live() {
		s.logged[r.Name] = len(r.Log())
	}
	s.began = history.Now()
	for _, r := range s.rounds {
		if r.ended == 0 {
			r.ended = s.began
		}
	}
}

// takesLocks says that this round takes locks from living owners.
func (s *scene) takesLocks() {
	GinkgoHelper()
	r := &round{began: s.began}
	s.rounds = append(s.rounds, r)
	AllowOverlap(s.c, "locks are taken from living owners", r.covers)
}

// healed waits until all is as it should be, and judges the round.
func (s *scene) healed(ctx context.Context) {
	GinkgoHelper()
	WaitUntil(ctx, s.began.Add(noticed))
	Eventually(s.c.CheckSpread).WithContext(ctx).WithArguments(editedTasks).Should(Succeed())
	Expect(s.c.Live()).To(HaveLen(editedReplicas), "no replica crashed")
	for _, r := range s.c.Live() {
		Expect(r.WorkerProc()).To(Equal(s.workers[r.Name]), "%s has another worker: the one before crashed", r.Name)
	}
	h := Load(s.c)
	ExpectOneRunEach(s.c)
	for _, o := range h.Overlaps() {
		if o.Later.Start >= s.began {
			ExpectWithin(s.c, twice, o.Later.Start, o.Later.Start.Add(o.For), o.String())
		}
	}
	started := h.Started(s.began, history.Now())
	if len(started) > 0 {
		last := started[0].Start
		for _, run := range started {
			last = max(last, run.Start)
		}
		Figure(
			s.store, "%s: %d starts, all runs again after %v", CurrentSpecReport().LeafNodeText, len(started),
			last.Sub(s.began).Round(10*time.Millisecond),
		)
	}
}

// restarted are the runs that the round has caused.
func (s *scene) restarted() []history.Run {
	GinkgoHelper()
	return Load(s.c).Started(s.began, history.Now())
}

// logs waits until some replica's log of this round holds all the texts in one line.
func (s *scene) logs(texts ...string) {
	GinkgoHelper()
	Eventually(func() error {
		for _, r := range s.c.Live() {
			for line := range strings.SplitSeq(r.Log()[s.logged[r.Name]:], "\n") {
				if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
					return nil
				}
			}
		}
		return fmt.Errorf("no replica has logged %q", texts)
	}).Should(Succeed())
}

// session is that of a replica, as it says itself.
func (s *scene) session(ctx context.Context, r *harness.Replica) string {
	GinkgoHelper()
	var id string
	Eventually(func() error {
		all, err := r.Client.Instances(ctx)
		if err != nil {
			return err
		}
		for _, i := range all {
			if i.Name == r.Name && i.State == "live" {
				id = i.Session
				return nil
			}
		}
		return fmt.Errorf("%s does not know itself live: %v", r.Name, all)
	}).Should(Succeed())
	return id
}

// sessions are those of all replicas, in order of their start.
func (s *scene) sessions(ctx context.Context) []string {
	GinkgoHelper()
	var ids []string
	for _, r := range s.c.Live() {
		ids = append(ids, s.session(ctx, r))
	}
	return ids
}

// mustEdit is edit for what the database takes whatever it is.
func (s *scene) mustEdit(ctx context.Context, kind, id string, fields object) {
	GinkgoHelper()
	Expect(s.edit(ctx, kind, id, fields)).To(BeTrue())
}

// kill ends the command of each of these keys: it is started again, and its lock is written for that.
func (s *scene) kill(keys ...string) {
	GinkgoHelper()
	owners := Load(s.c).Owners()
	for _, r := range s.c.Live() {
		for _, p := range r.TaskProcs() {
			for _, key := range keys {
				if owners[key].PID == p.PID {
					Expect(p.Signal(syscall.SIGKILL)).To(Succeed())
				}
			}
		}
	}
}

func whole(v any) bool {
	switch n := v.(type) {
	case int32:
		return n > 0
	case int64:
		return n > 0
	}
	return false
}
