//go:build linux

package watching

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

const (
	watchers  = 1000
	mostTasks = 10_000
	// changeEvery is the time between two changes of owners.
	changeEvery = 200 * time.Millisecond
)

// calm is how long replicas are left alone once all tasks have an owner: what a start leaves behind is not idle.
const calm = 10 * time.Second

// mixed are what watchers ask for, a third each.
var mixed = []string{"/api/v1/tasks?watch=true", "/api/v1/status?watch=true", "/api/v1/events?watch=true"}

// idleTasks is a file of configuration: tasks that wait for tomorrow.
const idleTasks = `groups:
  - name: idle
    instances: {selector: {%s}}
    tasks:
      - name: task-{000001..%06d}
        every: 24h
        exec: {command: [/bin/true]}
`

// pair is two replicas on one SQLite. The first is watched and measured, the second is asked for changes.
type pair struct {
	*harness.Cluster

	watched, other *harness.Replica
}

// withPair starts both with so many tasks.
func withPair(ctx context.Context, b *lab.Lab, tasks int, selector string, measure func(*pair) error) error {
	dir, err := os.MkdirTemp(b.Work, "watching-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "idle.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, idleTasks, selector, tasks), 0o600); err != nil {
		return err
	}
	c, err := harness.NewCluster(b.Bins, dir, harness.Options{
		StoreURI: "sqlite:" + filepath.Join(dir, "locks.db"), Lease: lab.DefaultLease, Settle: lab.Settle,
		Tasks:    movable,
		Recorder: []string{"--period", "1s"},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	p := &pair{Cluster: c}
	if p.watched, err = c.Start(ctx, "watched", "--config", file); err != nil {
		return err
	}
	if p.other, err = c.Start(ctx, "other", "--config", file); err != nil {
		return err
	}
	if err := lab.Until(ctx, func() error { return p.started(ctx, tasks, selector == "") }); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Logs(8))
	}
	if err := measure(p); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Logs(8))
	}
	return nil
}

// started says whether both see all tasks, those with an owner in balance.
func (p *pair) started(ctx context.Context, tasks int, owned bool) error {
	for _, r := range []*harness.Replica{p.watched, p.other} {
		s, err := r.Client.Status(ctx)
		if err != nil {
			return err
		}
		many, few := s.Group("idle"), s.Group(harness.Group)
		if many.Tasks != tasks || owned && (many.Unassigned+many.Starting > 0 || many.Imbalance > 1) {
			return fmt.Errorf("%s: %+v", r.Name, many)
		}
		if few.Running != movable || few.Imbalance > 0 {
			return fmt.Errorf("%s: %+v", r.Name, few)
		}
	}
	return nil
}

// settled says whether all tasks have an owner again, in balance.
func (p *pair) settled(ctx context.Context) error {
	s, err := p.watched.Client.Status(ctx)
	if g := s.Group("idle"); err == nil && (g.Unassigned > 0 || g.Imbalance > 1) {
		return fmt.Errorf("%s: %+v", p.watched.Name, g)
	}
	return err
}

// movable is how many tasks run. They are moved to and fro.
const movable = 2

// change moves keys between both replicas until ctx ends, one each changeEvery, and counts what was taken.
func (p *pair) change(ctx context.Context, group string, keys int, moved *atomic.Int64) error {
	owners, err := p.owners(ctx, group, keys)
	if err != nil {
		return err
	}
	every := time.NewTicker(changeEvery)
	defer every.Stop()
	client := &http.Client{Timeout: 5 * time.Second}
	for i := 0; ; i++ {
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil
		}
		// One goes there and the next one back, so that the balance stays.
		k := i % len(owners)
		to := p.watched.Name
		if owners[k].instance == to {
			to = p.other.Name
		}
		body := strings.NewReader(fmt.Sprintf(`{"instance": %q, "reason": "measured"}`, to))
		url := p.other.Client.AdminURL() + "/api/v1/tasks/" + owners[k].key + "/move"
		answer, err := client.Post(url, "application/json", body) //nolint:noctx // it has a time limit
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode < 300 {
			owners[k].instance = to
			moved.Add(1)
		}
	}
}

// owner is who owns a key.
type owner struct{ key, instance string }

// owners are some keys of both, in turn.
func (p *pair) owners(ctx context.Context, group string, keys int) ([]owner, error) {
	tasks, err := p.other.Client.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string][]owner{}
	for _, t := range tasks {
		if strings.HasPrefix(t.Key, group+"/") {
			by[t.Instance] = append(by[t.Instance], owner{t.Key, t.Instance})
		}
	}
	var all []owner
	here, there := by[p.watched.Name], by[p.other.Name]
	for i := range min(len(here), len(there), keys/2) {
		all = append(all, here[i], there[i])
	}
	if len(all) == 0 {
		return nil, errors.New("no tasks to move on both replicas")
	}
	return all, nil
}

// phases are what a replica uses while idle, and while owners change.
type phases struct {
	idle, changing cost
	changes        float64 // a second
}

func (p *pair) phases(ctx context.Context, window time.Duration) (ph phases, err error) {
	if ph.idle, err = during(ctx, p.watched, window); err != nil {
		return ph, err
	}
	changing, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	var moved atomic.Int64
	go func() { done <- p.change(changing, "idle", 200, &moved) }()
	err = sleep.For(ctx, time.Second)
	before := moved.Load()
	if err == nil {
		ph.changing, err = during(ctx, p.watched, window)
	}
	ph.changes = float64(moved.Load()-before) / window.Seconds()
	stop()
	err = errors.Join(err, <-done)
	if err == nil {
		err = lab.Until(ctx, func() error { return p.settled(ctx) })
	}
	return ph, err
}

// Watchers measures what a thousand watchers cost a replica that knows ten thousand tasks.
func Watchers(ctx context.Context, b *lab.Lab) error {
	window := 20 * time.Second
	if b.Quick {
		window = 8 * time.Second
	}
	return withPair(ctx, b, mostTasks, "", func(p *pair) error {
		if err := sleep.For(ctx, calm); err != nil {
			return err
		}
		without, err := p.phases(ctx, window)
		if err != nil {
			return err
		}
		empty, err := p.resident()
		if err != nil {
			return err
		}
		if err := p.firstList(ctx, b); err != nil {
			return err
		}
		all, err := p.come(ctx, b, watchers)
		if err != nil {
			return err
		}
		defer all.leave()
		bytes := all.bytes.Load()
		with, err := p.phases(ctx, window)
		if err != nil {
			return err
		}
		b.Note("  sent to them", "%.1f MB", float64(all.bytes.Load()-bytes)/1e6)
		b.Figure("watchers lost", all.lost.Load() == 0, "none", "%d of %d", all.lost.Load(), watchers)
		compare(b, "idle", with.idle, without.idle, 0)
		compare(b, fmt.Sprintf("%.1f changes/s", with.changes), with.changing, without.changing, mostLooks)
		half, err := p.resident()
		if err != nil {
			return err
		}
		more, err := p.come(ctx, b, watchers)
		if err != nil {
			return err
		}
		defer more.leave()
		full, err := p.resident()
		b.Note(fmt.Sprintf("watchers, memory, %d tasks", mostTasks), "%.1f MiB without, %.1f with %d, %.1f with %d",
			mib(empty), mib(half), watchers, mib(full), 2*watchers)
		return err
	})
}

// firstList measures what one watcher of all tasks is sent first.
func (p *pair) firstList(ctx context.Context, b *lab.Lab) error {
	one := gather(ctx, p.watched.Client.Server, 1, mixed[0])
	defer one.leave()
	if err := one.all(ctx, 1); err != nil {
		return err
	}
	var size int64
	for now := one.bytes.Load(); now != size; now = one.bytes.Load() {
		size = now
		if err := sleep.For(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	b.Figure(
		fmt.Sprintf("a watch's first list of %d tasks", mostTasks), size < 400_000, "< 400 kB", "%.0f kB in gzip",
		float64(size)/1e3,
	)
	return nil
}

// come opens n connections and says what that takes.
func (p *pair) come(ctx context.Context, b *lab.Lab, n int) (*watcherSet, error) {
	begin := time.Now()
	before, err := spent(ctx, p.watched)
	if err != nil {
		return nil, err
	}
	all := gather(ctx, p.watched.Client.Server, n, mixed...)
	if err := all.all(ctx, n); err != nil {
		all.leave()
		return nil, err
	}
	after, err := spent(ctx, p.watched)
	if err != nil {
		all.leave()
		return nil, err
	}
	b.Note(fmt.Sprintf("  %d watchers came", n), "within %s, %.2f s of a core, %.0f looks for events",
		lab.MS(time.Since(begin)), (after.cpu - before.cpu).Seconds(), after.ops["events"]-before.ops["events"])
	return all, nil
}

// resident is the memory of the replica's worker that is watched, in bytes.
func (p *pair) resident() (int64, error) {
	worker, err := p.watched.WorkerProc()
	if err != nil {
		return 0, err
	}
	return resident(worker.PID)
}

// compare prints a phase with and without watchers. They may cause so many more looks for events a second.
func compare(b *lab.Lab, name string, with, without cost, most float64) {
	b.Figure("watchers, CPU, "+name, with.share() < 1, fmt.Sprintf("%d watchers < 1 core", watchers),
		"%.3f of a core, without watchers %.3f, %.1f times as much", with.share(), without.share(),
		with.share()/without.share())
	more := (with.ops["events"] - without.ops["events"]) / with.took.Seconds()
	b.Figure("watchers, store, "+name, more <= most, fmt.Sprintf("≤ %.0f looks/s more, for all together", most),
		"%.1f operations/s, without watchers %.1f; looks for events %.2f/s", with.operations(), without.operations(),
		more)
}

// mostLooks is how often a second one look for events serves all watchers, while events are written.
const mostLooks = 2
