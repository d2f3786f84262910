package shard_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/shard/shardhttp"
	"github.com/shardctl/shardctl/test/suites"
)

// The environment of a process of the service that TestRollingUpdate starts.
const envStore, envInstance, envRollout = "SHARD_TEST_STORE", "SHARD_TEST_INSTANCE", "SHARD_TEST_ROLLOUT"

const keys, processes = 100, 5

func TestMain(m *testing.M) {
	uri := os.Getenv(envStore)
	if uri == "" {
		os.Exit(m.Run())
	}
	if err := share(uri, os.Getenv(envInstance)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// share is one process of the service. It prints what begins and ends.
func share(uri, instance string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	r, err := shard.Start(ctx, shard.Config{
		Store: uri, Group: "topics", Keys: names(keys), Instance: instance, Lease: 4 * time.Second,
		Options: shard.Options{Rollout: os.Getenv(envRollout)},
	}, func(ctx context.Context, own shard.Lease) error {
		fmt.Fprintln(os.Stdout, instance, "begins", own.Name(), own.Token(), time.Now().UnixMicro())
		<-ctx.Done()
		fmt.Fprintln(os.Stdout, instance, "ends", own.Name(), own.Token(), time.Now().UnixMicro())
		return nil
	})
	if err != nil {
		return err
	}
	handler := shardhttp.Handler(r, shardhttp.Options{})
	for range r.Watch(ctx) {
		ready := httptest.NewRecorder()
		handler.ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		if ready.Code == http.StatusOK {
			fmt.Fprintln(os.Stdout, instance, "ready", "-", 0, 0)
			break
		}
	}
	return r.Wait()
}

// run is one run of a key's work. Times are in µs; ended is 0 while it goes on, or if its process did not say.
type run struct {
	instance            string
	token, began, ended int64
}

// fleet is the processes of the service, which write to one pipe: its order is that of their writes.
type fleet struct {
	t        *testing.T
	uri      string
	out      *os.File
	all      sync.WaitGroup
	restarts int

	mu      sync.Mutex
	process map[string]*exec.Cmd // by instance
	stopped map[string]bool      // asked to end
	up      map[string]bool      // ready, and not ended
	runs    map[string][]run     // by key
	owner   map[string]string    // instance by key that is worked on
	more    chan struct{}        // closed at the next line
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		t: t, uri: "sqlite:" + filepath.Join(t.TempDir(), "shard.db"), out: write, process: map[string]*exec.Cmd{},
		stopped: map[string]bool{}, up: map[string]bool{}, runs: map[string][]run{}, owner: map[string]string{},
		more: make(chan struct{}),
	}
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		for s := bufio.NewScanner(read); s.Scan(); {
			f.note(s.Text())
		}
	}()
	t.Cleanup(func() { // the context of the test has ended, and so has every process
		f.all.Wait()
		_ = write.Close()
		<-noted
		_ = read.Close()
	})
	return f
}

// note takes a line: INSTANCE begins|ends|ready|exits KEY TOKEN TIME.
func (f *fleet) note(line string) {
	var instance, what, key string
	var token, at int64
	if _, err := fmt.Sscan(line, &instance, &what, &key, &token, &at); err != nil {
		f.t.Errorf("%q: %v", line, err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch what {
	case "begins":
		if other := f.owner[key]; other != "" {
			f.t.Errorf("%s begins on %s while it runs on %s", key, instance, other)
		}
		if all := f.runs[key]; len(all) > 0 && all[len(all)-1].token >= token {
			f.t.Errorf("%s: token %d after %d", key, token, all[len(all)-1].token)
		}
		f.owner[key] = instance
		f.runs[key] = append(f.runs[key], run{instance: instance, token: token, began: at})
	case "ends":
		delete(f.owner, key)
		f.runs[key][len(f.runs[key])-1].ended = at
	case "ready":
		f.up[instance] = true
	case "exits":
		f.up[instance] = false
		for key, owner := range f.owner {
			if owner == instance {
				delete(f.owner, key)
			}
		}
	}
	close(f.more)
	f.more = make(chan struct{})
}

// start starts a process, and waits until it is ready. One that loses its session, as where it gets too little time,
// ends by itself and is started again.
func (f *fleet) start(instance, rollout string) {
	f.t.Helper()
	f.all.Go(func() {
		for f.once(instance, rollout) {
		}
	})
	f.wait(instance+" is ready", func() bool { return f.up[instance] })
}

// once runs a process until it ends, and says whether it was not asked to.
func (f *fleet) once(instance, rollout string) bool {
	c := exec.CommandContext(f.t.Context(), os.Args[0])
	c.Env = append(os.Environ(), envStore+"="+f.uri, envInstance+"="+instance, envRollout+"="+rollout)
	c.Stdout, c.Stderr = f.out, os.Stderr
	f.mu.Lock()
	if f.stopped[instance] {
		f.mu.Unlock()
		return false
	}
	err := c.Start()
	f.process[instance] = c
	f.mu.Unlock()
	if err != nil {
		f.t.Error(err)
		return false
	}
	err = c.Wait()
	fmt.Fprintln(f.out, instance, "exits", "-", 0, 0)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped[instance] && err == nil || f.t.Context().Err() != nil {
		return false
	}
	f.restarts++
	f.t.Logf("%s has ended by itself: %v", instance, err)
	return !f.stopped[instance]
}

// stop ends a process in order, and waits for its end.
func (f *fleet) stop(instance string) {
	f.t.Helper()
	f.mu.Lock()
	f.stopped[instance] = true
	_ = f.process[instance].Process.Signal(syscall.SIGTERM) // it may have ended
	f.mu.Unlock()
	f.wait(instance+" has ended", func() bool { return !f.up[instance] })
}

// wait waits until what holds.
func (f *fleet) wait(what string, holds func() bool) {
	f.t.Helper()
	limit := time.After(3 * time.Minute)
	for {
		f.mu.Lock()
		ok, more := holds(), f.more
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-limit:
			f.t.Fatalf("%s: not within three minutes", what)
		}
	}
}

// shared says whether all keys are worked on, evenly by these processes.
func (f *fleet) shared() bool {
	shares := map[string]int{}
	for _, instance := range f.owner {
		shares[instance]++
	}
	for _, n := range shares {
		if n != keys/processes {
			return false
		}
	}
	return len(shares) == processes
}

// TestRollingUpdate replaces five real processes that share a hundred keys, one by one, each after its successor is
// ready. No two work on a key at a time, tokens rise, and each key moves at most twice.
func TestRollingUpdate(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes and half a minute")
	f := newFleet(t)
	for i := range processes {
		f.start(fmt.Sprintf("old-%d", i), "1")
	}
	f.wait("five processes have twenty keys each", f.shared)
	f.mu.Lock()
	clear(f.runs)
	for key, instance := range f.owner {
		f.runs[key] = []run{{instance: instance}} // what went on at the beginning
	}
	f.mu.Unlock()
	for i := range processes {
		f.start(fmt.Sprintf("new-%d", i), "2")
		f.stop(fmt.Sprintf("old-%d", i))
		f.wait("all keys run", func() bool { return len(f.owner) == keys })
	}
	f.wait("five new processes have twenty keys each", f.shared)
	f.report()
	for i := range processes {
		f.stop(fmt.Sprintf("new-%d", i))
	}
	f.all.Wait()
}

// report logs and checks how often keys moved, and how long they stood still.
func (f *fleet) report() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var gaps []time.Duration
	most := 0
	for key, all := range f.runs {
		moves := len(all) - 1
		if most = max(most, moves); moves > 2 && f.restarts == 0 {
			f.t.Errorf("%s has moved %d times: %+v", key, moves, all)
		}
		for i := 1; i < len(all); i++ {
			if all[i-1].ended > 0 {
				gaps = append(gaps, time.Duration(all[i].began-all[i-1].ended)*time.Microsecond)
			}
		}
	}
	slices.Sort(gaps)
	if len(gaps) < keys && f.restarts == 0 {
		f.t.Fatalf("%d moves of %d keys, want each to move", len(gaps), keys)
	}
	f.t.Logf("figure: %d moves of %d keys, at most %d of one, gap p50 %s, p99 %s, longest %s, %d restarts", len(gaps),
		keys, most, gaps[len(gaps)/2], gaps[len(gaps)*99/100], gaps[len(gaps)-1], f.restarts)
}
