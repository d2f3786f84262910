package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/shardctl/shardctl/pkg/shard"
)

func TestMain(m *testing.M) {
	if os.Getenv("CONTROLLER_PROCESS") != "" {
		go answerMemory(os.Stdin)
		start(recorded)
		return
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// answerMemory says what memory this process has, for each line that it is asked.
func answerMemory(asked io.Reader) {
	for s := bufio.NewScanner(asked); s.Scan(); {
		runtime.GC()         // what sync.Pool has outlives one collection
		debug.FreeOSMemory() // the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		var size, resident int64
		if text, err := os.ReadFile("/proc/self/statm"); err == nil {
			_, _ = fmt.Sscan(string(text), &size, &resident)
		}
		fmt.Fprintln(os.Stdout, "memory", "-", m.HeapAlloc, resident*int64(os.Getpagesize()))
	}
}

// recorded is hashData, slower, with its begin and end on standard output.
func recorded(ctx context.Context, c client.Client, own shard.Lease, req ctrl.Request) (ctrl.Result, error) {
	note := func(what string, at time.Time) {
		fmt.Fprintln(os.Stdout, what, req.Name, own.Token(), at.UnixNano())
	}
	note("begin", time.Now())
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
	}
	result, err := hashData(ctx, c, own, req)
	note("end", time.Now())
	return result, err
}

// work is one reconcile of an object.
type work struct {
	object, instance string
	token            int64
	begin, end       time.Time // end is zero while it goes on
}

// records are what all processes have done.
type records struct {
	mu   sync.Mutex
	all  []work
	open map[string]int // place in all, by instance and object
}

// read takes the lines of a process until it has ended. What it had not ended then ends now.
func (r *records) read(instance string, out io.Reader, answer chan<- memory) {
	for s := bufio.NewScanner(out); s.Scan(); {
		var w work
		var what string
		var at int64
		if n, _ := fmt.Sscan(s.Text(), &what, &w.object, &w.token, &at); n < 4 {
			continue
		}
		if what == "memory" {
			answer <- memory{heap: w.token, resident: at}
			continue
		}
		if w.instance, w.begin = instance, time.Unix(0, at); strings.HasPrefix(w.object, "object-") {
			r.note(what, w) // not those that a cluster has in each namespace
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, i := range r.open {
		if strings.HasPrefix(key, instance+" ") {
			r.all[i].end = time.Now()
			delete(r.open, key)
		}
	}
}

func (r *records) note(what string, w work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := w.instance + " " + w.object
	if what == "begin" {
		r.open[key] = len(r.all)
		r.all = append(r.all, w)
		return
	}
	r.all[r.open[key]].end = w.begin
	delete(r.open, key)
}

// latest is by object what ended last, of what began at a moment or later.
func (r *records) latest(since time.Time) map[string]work {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := map[string]work{}
	for _, w := range r.all {
		if !w.end.IsZero() && !w.begin.Before(since) && w.end.After(last[w.object].end) {
			last[w.object] = w
		}
	}
	return last
}

// byInstance counts the objects that each has reconciled last.
func byInstance(last map[string]work) map[string]int {
	n := map[string]int{}
	for _, w := range last {
		n[w.instance]++
	}
	return n
}

// judge holds that each object was reconciled by one at a time, and that no owner came after a later one.
func (r *records) judge(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	slices.SortFunc(all, func(a, b work) int {
		return cmp.Or(cmp.Compare(a.object, b.object), a.begin.Compare(b.begin))
	})
	for i, w := range all[1:] {
		before := all[i]
		switch {
		case w.object != before.object:
		case w.begin.Before(before.end) || before.end.IsZero():
			t.Errorf("%+v began while %+v went on", w, before)
		case w.token < before.token || w.instance != before.instance && w.token == before.token:
			t.Errorf("%+v after %+v: the token did not rise", w, before)
		}
	}
	t.Logf("figure: %d reconciles of %d objects", len(all), len(r.open)+len(byObject(all)))
}

func byObject(all []work) map[string]bool {
	names := map[string]bool{}
	for _, w := range all {
		names[w.object] = true
	}
	return names
}
