package program

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// workerProcess is the process that does everything but starting and ending commands.
type workerProcess struct {
	opts     runOptions
	settings *config.Config
	out      *logs
	log      logr.Logger
	guard    *worker.Client
	metrics  *metrics.Metrics
	replica  *replica.Replica
	traces   traces
	watcher  *config.Watcher
}

func runWorker(ctx context.Context, o runOptions) error {
	// The guard runs /proc/self/exe, so that an upgrade on disk does not mix versions; ps and pkill shall see the name
	// all the same.
	_ = os.WriteFile("/proc/self/comm", []byte("shardctl"), 0) // only Linux has it
	ignoreOrders()
	client, err := worker.Connect()
	if err != nil {
		return err
	}
	s, err := load(o.paths)
	if err != nil {
		return err
	}
	w := &workerProcess{
		opts: o, settings: s, guard: client, out: newLogs(s.Log, os.Stderr),
		metrics: metrics.New(s.Metrics.PerTask),
	}
	defer w.out.close()
	w.watcher = config.NewWatcher(o.paths, configOptions())
	w.log = w.out.own.WithValues("instance", s.Instance)
	if err := client.Hello(s.Lease.Duration, s.Shutdown.Timeout); err != nil {
		return err
	}
	w.metrics.SetBuild(options.Version, commit())
	w.metrics.ConfigLoaded(fingerprint(s.Settings), time.Now())
	w.warn(s.Warnings)
	place, left := restartInPlace(ctx, client, s.Pod, w.log)
	w.traces.begin(ctx, s.Settings, w.log.WithName("tracing"))
	w.replica = replica.New(replica.Config{
		Settings: s.Settings, Metrics: w.metrics, Left: left, Application: application.Beside,
		Output: w.out, Logger: w.log,
		Guard: worker.NewReplica(client, place, worker.Leases{
			Remote: s.Lease.Duration, Application: application.MaxValidity(s.Lease.Duration),
		}, w.log),
		Tracer: w.traces.tracer(), OnStuck: w.stuck, Registry: options.Callbacks, Functions: options.Listers,
		Version: options.Version, Revision: cmp.Or(s.Rollout, replica.ProgramRevision(options.Version)),
	})
	giveBack()
	err = w.run(ctx)
	w.traces.end(ctx)
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if byeErr := client.Close(bye); err == nil && byeErr != nil {
		w.log.V(1).Info("Could not say goodbye to the guard", "error", byeErr.Error())
	}
	return err
}

// fingerprint is a hash of the task lists as written.
func fingerprint(s *settings.Settings) string {
	sum := sha256.New()
	for _, g := range s.Groups {
		_, _ = io.WriteString(sum, g.Name+"\x00"+g.Hash+"\x00") // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// stuck is the hard deadline: callbacks still run although the lease is over. The guard ends what it started.
func (w *workerProcess) stuck(keys []elect.Key) {
	w.log.Error(elect.ErrLeaseLost, "Runs outlived the lease: exiting", "keys", keys)
	w.out.close()
	os.Exit(guard.ExitLeaseLost)
}

var errDrained = errors.New("drained")

// run serves status at once, waits for the store, and takes part until it is asked to stop.
func (w *workerProcess) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	part, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	drained := make(chan error, 1)
	group.Go(func() error { w.obey(serving, part, leave); return nil })
	if err := w.serve(serving, part, group); err != nil {
		stopServing()
		served := group.Wait()
		if errors.Is(err, errDrained) {
			return served
		}
		return err
	}
	group.Go(func() error { return w.reload(part) })
	group.Go(func() error { keepGivingBack(part); return nil })
	if w.opts.untilDone {
		group.Go(func() error { return w.untilDone(part, leave, drained) })
	}
	group.Go(func() error {
		defer stopServing()
		err := w.takePart(part)
		leave(errDrained)
		return err
	})
	err := group.Wait()
	select {
	case drainErr := <-drained:
		return errors.Join(err, drainErr)
	default:
		return err
	}
}

// takePart opens the store and runs the replica.
func (w *workerProcess) takePart(ctx context.Context) error {
	open := func(ctx context.Context) (store.Store, error) {
		return openToRun(ctx, w.settings.StoreConfig(w.log))
	}
	db, err := replica.WaitForStore(ctx, w.opts.waitStore, open, func(err error, next time.Duration) {
		w.log.Info("The store cannot be reached: trying again", "error", err.Error(), "duration", next)
		w.replica.StoreFailed(err)
	})
	switch {
	case errors.Is(err, errDrained):
		return nil
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrSchema), errors.Is(err, elect.ErrMoved):
		return usage("store: %w", err)
	case err != nil:
		return fmt.Errorf("store: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = db.Close(closing) // everything that mattered is acknowledged
	}()
	w.log.Info("Taking part", "store", w.settings.Store.Masked())
	return w.replica.Run(ctx, hooked(db))
}

// obey does what the guard orders, until ctx ends. That is after the replica has ended, which may wait for the guard: a
// guard that dies meanwhile must be seen. A drain ends part.
func (w *workerProcess) obey(ctx, part context.Context, leave context.CancelCauseFunc) {
	draining := false
	for {
		select {
		case order := <-w.guard.Orders():
			switch order {
			case wire.Drain:
				if !draining {
					draining = true
					go w.drain(part, leave)
				}
			case wire.HardStop:
				w.log.Info("Stopping hard")
				w.out.close()
				os.Exit(1)
			case wire.Reload:
				w.watcher.Trigger()
			}
		case alarm := <-w.guard.Alarms():
			err := errors.New("SIGKILL has not helped")
			if alarm.Refused {
				err = errors.New("they run as another user, and may not be signalled")
				w.replica.Unsignalled(alarm.Key, alarm.PIDs)
			}
			w.log.Error(err, "Processes do not die: their key stays held", "key", alarm.Key, "pids", alarm.PIDs)
		case <-w.guard.Lost():
			w.log.Error(worker.ErrLost, "Exiting: without a guard nothing may run")
			w.out.close()
			os.Exit(1)
		case <-ctx.Done():
			return
		}
	}
}

// afterKill is how long after shutdown.timeout, when the guard kills what is left, its keys may take to be handed over.
// The guard itself gives the worker a second more.
const afterKill = 2 * time.Second

// drain hands everything over and then leaves. What has not ended by shutdown.timeout is killed by the guard.
func (w *workerProcess) drain(ctx context.Context, leave context.CancelCauseFunc) {
	w.log.Info("Handing all tasks over")
	w.traces.endBy(time.Now().Add(w.settings.Shutdown.Timeout))
	limited, cancel := context.WithTimeout(ctx, w.settings.Shutdown.Timeout+afterKill)
	err := w.replica.Drain(limited)
	cancel()
	if err != nil && ctx.Err() == nil {
		w.log.Error(
			err, "The drain did not end in time: what is left is killed", "duration", w.settings.Shutdown.Timeout,
		)
		w.out.close()
		os.Exit(cli.CodeNo)
	}
	if err == nil {
		w.log.Info("All tasks are handed over")
	}
	leave(errDrained)
}

// warn logs what is allowed in a configuration, and probably not meant.
func (w *workerProcess) warn(warnings decode.Errors) {
	for _, warning := range warnings {
		w.log.Info("The configuration has something that is probably not meant", "message", warning.Error())
	}
}

// reload takes up changed task lists.
func (w *workerProcess) reload(ctx context.Context) error {
	w.watcher.Applied = func(c *config.Config, restart []string) {
		w.log.Info("The configuration was read again", "tasks", c.Tasks())
		w.warn(c.Warnings)
		w.metrics.ConfigLoaded(fingerprint(c.Settings), time.Now())
		w.replica.Apply(c.Settings, restart)
	}
	w.watcher.Refused = func(err error) {
		w.log.Error(err, "The changed configuration is refused: the last good one stays")
		w.metrics.ConfigRefused()
		w.replica.Refuse(err)
	}
	w.watcher.Logger = w.log
	if err := w.watcher.Run(ctx, w.settings); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

var errTaskFailed = errors.New("a task has failed")

// untilDone leaves once every task that ends by itself has ended. What the tasks look like does not matter, only the
// outcomes that the store holds. One that is paused meanwhile, or whose key is not released yet, has ended as well.
func (w *workerProcess) untilDone(ctx context.Context, leave context.CancelCauseFunc, drained chan<- error) error {
	board := w.replica.Board()
	for {
		changed := board.Changed()
		never := jobs(w.replica.Settings())
		if over, failed := w.replica.Ended(never); over && w.replica.Listed() {
			if failed > 0 {
				drained <- fmt.Errorf("%d of %d: %w", failed, len(never), errTaskFailed)
			}
			w.drain(ctx, leave)
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// jobs are the keys of the tasks that end by themselves.
func jobs(s *settings.Settings) []elect.Key {
	var keys []elect.Key
	for _, g := range s.Groups {
		for i := range g.Tasks {
			if g.Tasks[i].Restart == tasks.RestartNever {
				keys = append(keys, g.Tasks[i].Key())
			}
		}
	}
	return keys
}

// placeLimit is how long the guard may take to hear of the place.
const placeLimit = 5 * time.Second

// restartInPlace takes the place of this container's last process, and returns what that left behind. Whatever is in
// the way, the replica runs all the same. Its keys then wait for the lease after a death of the whole container, as
// those of any replica do.
func restartInPlace(
	ctx context.Context, client *worker.Client, pod settings.Pod, log logr.Logger,
) (*worker.Place, []electing.Session) {
	if pod == (settings.Pod{}) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	place, left, err := client.InPlace(ctx, pod.Dir, worker.Identity{PodUID: pod.UID, Container: pod.Container})
	switch {
	case errors.Is(err, worker.ErrNotInPlace):
		log.Info(
			"No restart in place: after a death of the whole container its tasks wait for the lease", "error",
			err.Error(),
		)
		return nil, nil
	case err != nil:
		log.Error(
			err, "No restart in place: after a death of the whole container its tasks wait for the lease", "dir",
			pod.Dir,
		)
		return nil, nil
	}
	if len(left) > 0 {
		log.Info("Restarted in place: the sessions left here will be marked dead", "sessions", len(left))
	}
	return place, left
}
