//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/testprocess"
)

const (
	// storyLease is many times what compilers on all processors hold a replica up for: a guard gives its worker up
	// after a quarter of it. A crash costs the story one lease, so a longer one would make it last longer.
	storyLease = 15 * time.Second
	// storyPatience bounds each wait for an event. How long events take is not judged.
	storyPatience = 2 * time.Minute
	storyTasks    = 100
	// storyCap lets three replicas run all tasks, and is above each replica's even share.
	storyCap = 40
)

// TestStory is the one story of real processes that `go test ./...` plays: a hundred tasks on five replicas that share
// a SQLite file. One replica is killed with its guard, one is asked to leave, one joins, and one loses its worker alone.
// The first costs a lease, and the others happen meanwhile. It is judged by what the tasks recorded, and no time is.
func TestStory(t *testing.T) {
	work, err := testprocess.WorkDir("story")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := work.Close(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	bins, err := harness.Build(t.Context(), work.Data())
	if err != nil {
		t.Fatal(err)
	}
	s := newStory(t, bins, work.Dir)

	s.Expect(s.cluster.Scale(t.Context(), 5)).To(Succeed())
	s.allRun()
	killed, leaving, bereft := s.replica(0), s.replica(1), s.replica(2)

	t.Log("kill -9 of guard and worker: what the dead one ran waits for its lease, and the rest goes on")
	its, procs := s.keysOf(killed), killed.TaskProcs()
	died, err := killed.Kill(harness.Both, syscall.SIGKILL)
	s.Expect(err).NotTo(HaveOccurred())

	t.Log("SIGTERM: the tasks move to the others before the replica ends")
	s.handsOver(leaving, harness.Guard, syscall.SIGTERM, Equal(0))

	t.Log("a new replica joins")
	s.Expect(s.cluster.Add(t.Context(), 1)).To(Succeed())
	s.eventually(s.livingAreEven).Should(Succeed())

	t.Log("kill -9 of a worker alone: its guard ends the tasks and gives the session up")
	s.handsOver(bereft, harness.Worker, syscall.SIGKILL, Not(Equal(0)))

	s.eventually(func() error { return s.cluster.CheckTaken(its, died) }).Should(Succeed())
	for _, p := range procs {
		s.Expect(p.Alive()).To(BeFalse(), "task process %d of the dead replica still lives", p.PID)
	}
	s.allRun()

	t.Log("all stop gracefully")
	live := s.cluster.Live()
	s.Expect(live).To(HaveLen(3), "every other replica lives to the end")
	s.Expect(s.cluster.Scale(t.Context(), 0)).To(Succeed())
	for _, r := range live {
		s.Expect(s.exitCode(r)).To(Equal(0), r.Name)
	}
	s.judge()
	s.nothingLeft()
}

// story is a cluster of TestStory, with what the story wants of it.
type story struct {
	*WithT
	t       *testing.T
	cluster *harness.Cluster
	dir     string // all that the replicas may write is below it
}

func newStory(t *testing.T, bins harness.Binaries, dir string) *story {
	t.Helper()
	s := &story{WithT: NewWithT(t), t: t, dir: dir}
	for _, name := range []string{"cluster", "store", "tmp"} {
		s.Expect(os.Mkdir(filepath.Join(dir, name), 0o700)).To(Succeed())
	}
	var err error
	s.cluster, err = harness.NewCluster(bins, filepath.Join(dir, "cluster"), harness.Options{
		StoreURI: "sqlite:" + filepath.Join(dir, "store", "locks.db"), Lease: storyLease,
		Settle: 500 * time.Millisecond, Cap: storyCap, Tasks: storyTasks, TempDir: filepath.Join(dir, "tmp"),
		Recorder: []string{"--period", "50ms"}, // a hundred of them leave a busy machine some time for the replicas
	})
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.cluster.Logs(30))
		}
		s.cluster.Close()
	})
	return s
}

func (s *story) eventually(check any) AsyncAssertion {
	s.t.Helper()
	return s.Eventually(check).WithTimeout(storyPatience).WithPolling(200 * time.Millisecond)
}

// allRun waits until all tasks run, spread evenly, in the eyes of every replica and by their own records.
func (s *story) allRun() {
	s.t.Helper()
	s.eventually(func() error { return s.cluster.CheckSpread(s.t.Context(), storyTasks) }).Should(Succeed())
}

// livingAreEven returns an error unless each living replica has its share of what they run, by the records.
func (s *story) livingAreEven() error {
	h, err := s.cluster.History()
	if err != nil {
		return err
	}
	counts, least, most := history.ByInstance(h.Owners()), storyTasks, 0
	for _, r := range s.cluster.Live() {
		least, most = min(least, counts[r.Name]), max(most, counts[r.Name])
	}
	if most-least > 1 {
		return fmt.Errorf("uneven: %v", counts)
	}
	return nil
}

// replica returns the one that was started as the i-th, counted from 0.
func (s *story) replica(i int) *harness.Replica { return s.cluster.All()[i] }

func (s *story) keysOf(r *harness.Replica) []string {
	s.t.Helper()
	keys, err := s.cluster.KeysOf(r.Name)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(keys).NotTo(BeEmpty(), r.Name)
	return keys
}

// handsOver signals a part of a replica. All that it ran must start elsewhere, and nothing of it may outlive it.
func (s *story) handsOver(r *harness.Replica, part harness.Part, sig syscall.Signal, exit OmegaMatcher) {
	s.t.Helper()
	keys := s.keysOf(r)
	at, err := r.Kill(part, sig)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.exitCode(r)).To(exit, r.Name)
	gone := history.Now()
	s.eventually(func() error { return s.cluster.CheckTaken(keys, at) }).Should(Succeed())
	s.Expect(s.load().AliveAfter(r.Name, gone)).To(BeEmpty(), "tasks that outlived their replica")
}

func (s *story) exitCode(r *harness.Replica) int {
	s.t.Helper()
	ended, err := r.Wait(s.t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	return ended.ExitCode()
}

func (s *story) load() *history.History {
	s.t.Helper()
	h, err := s.cluster.History()
	s.Expect(err).NotTo(HaveOccurred())
	return h
}

// judge holds the record of the whole story to what must be so at any time.
func (s *story) judge() {
	s.t.Helper()
	h := s.load()
	s.Expect(h.Keys()).To(Equal(s.cluster.Keys()), "every task ran")
	s.Expect(h.Overlaps()).To(BeEmpty(), "no task ran twice at once")
	s.Expect(h.TokenFaults()).To(BeEmpty(), "the tokens of each task strictly increase")
	for instance, most := range h.MostAtOnce() {
		s.Expect(most.Keys).To(BeNumerically("<=", storyCap), "the cap of %s", instance)
	}
	s.t.Logf("%d starts of %d tasks", len(h.Started(0, history.Now())), len(h.Keys()))
}

// nothingLeft wants the replicas to have left no process, and no file but the store's.
func (s *story) nothingLeft() {
	s.t.Helper()
	s.Expect(s.cluster.Leftovers()).To(BeEmpty(), "processes that outlived their replica")
	for _, dir := range []string{"tmp", "store"} {
		entries, err := os.ReadDir(filepath.Join(s.dir, dir))
		s.Expect(err).NotTo(HaveOccurred())
		for _, e := range entries {
			s.Expect(e.Name()).To(HavePrefix("locks.db"), "a file in %s", dir)
		}
	}
}
