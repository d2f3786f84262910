package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/client"
	"github.com/shardctl/shardctl/test/suites"
)

var rate = flag.Int("rate", 1000, "requests a second in all")

// process is one of the service.
type process struct {
	cmd     *exec.Cmd
	address string
}

func start(t *testing.T, store, instance string) *process {
	t.Helper()
	addresses, err := web.FreeAddresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{exec.CommandContext(t.Context(), os.Args[0],
		"-store", store, "-instance", instance, "-listen", addresses[0]), addresses[0]}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "ROUTING_PROCESS=1"), os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// stop ends a process as a rolling update does, and waits for it.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s: %v", p.address, err)
	}
}

// way is one in which requests reach owners.
type way struct {
	name string
	send func(r *http.Request) (*http.Response, error)

	mu     sync.Mutex
	took   []time.Duration
	stamps []stamp
	again  int     // requests that were repeated
	broken int     // answers that broke off
	lost   []error // requests without an answer
}

// maxUnanswered bounds how many requests wait for an answer. A machine that carries fewer a second gets fewer.
const maxUnanswered = 256

// ask sends a request for a key, again until it is answered: it may be repeated, as a GET.
func (w *way) ask(ctx context.Context, key string) {
	begin, again, broken := time.Now(), 0, 0
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		s, err := w.once(ctx, key)
		if err == nil || ctx.Err() != nil {
			w.note(s, time.Since(begin), again, broken, err)
			return
		}
		if again++; !errors.Is(err, errNotCarriedOut) {
			broken++
		}
		time.Sleep(20 * time.Millisecond)
	}
}

var errNotCarriedOut = errors.New("not carried out")

func (w *way) once(ctx context.Context, key string) (s stamp, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://topics/"+key, http.NoBody)
	if err != nil {
		return s, err
	}
	r.Header.Set("Shardctl-Key", key)
	resp, err := w.send(r)
	if errors.Is(err, client.ErrNoOwner) || errors.Is(err, syscall.ECONNREFUSED) {
		return s, errors.Join(errNotCarriedOut, err)
	}
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return s, json.NewDecoder(resp.Body).Decode(&s)
	case http.StatusMisdirectedRequest, http.StatusServiceUnavailable:
		return s, errNotCarriedOut
	default:
		return s, fmt.Errorf("status %d", resp.StatusCode)
	}
}

func (w *way) note(s stamp, took time.Duration, again, broken int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again += min(again, 1)
	w.broken += broken
	if err != nil {
		w.lost = append(w.lost, err)
		return
	}
	w.took, w.stamps = append(w.took, took), append(w.stamps, s)
}

// figures prints and forgets how long requests took.
func (w *way) figures(t *testing.T, phase string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.took)
	if n := len(w.took); n > 0 {
		t.Logf("figure: %s, %s: %d requests, p50 %s, p99 %s, longest %s, %d repeated, %d broken off", phase, w.name, n,
			w.took[n/2].Round(10*time.Microsecond), w.took[n*99/100].Round(10*time.Microsecond),
			w.took[n-1].Round(time.Millisecond), w.again, w.broken)
	}
	w.took, w.again, w.broken = nil, 0, 0
}

// load sends requests at a rate through these ways in turn, until stop is called.
func load(ctx context.Context, perSecond int, ways ...*way) (stop func()) {
	var all sync.WaitGroup
	ending, end := context.WithCancel(ctx)
	all.Go(func() {
		due := time.NewTicker(10 * time.Millisecond)
		defer due.Stop()
		begin, free := time.Now(), make(chan struct{}, maxUnanswered)
		for i := 0; ; {
			select {
			case <-due.C:
			case <-ending.Done():
				return
			}
			for ; i < int(time.Since(begin).Seconds()*float64(perSecond)); i++ {
				w, key := ways[i%len(ways)], fmt.Sprintf("topics/topic-%03d", i/len(ways)%100+1)
				free <- struct{}{}
				all.Go(func() {
					defer func() { <-free }()
					w.ask(ctx, key)
				})
			}
		}
	})
	return func() {
		end()
		all.Wait()
	}
}

// TestRequestsDuringARollingUpdate sends requests while five real processes are replaced one by one. None is lost, and
// no key is answered for by two owners at a time.
func TestRequestsDuringARollingUpdate(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes and half a minute")
	store := "sqlite:" + filepath.Join(t.TempDir(), "routing.db")
	processes := make([]*process, 5)
	for i := range processes {
		processes[i] = start(t, store, fmt.Sprintf("old-%d", i))
	}
	door := &frontDoor{address: processes[0].address}
	c, err := client.New("http://topics", client.WithHTTPClient(&http.Client{Transport: door}))
	if err != nil {
		t.Fatal(err)
	}
	router := c.Router("topics")
	ctx, cancel := context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() { following <- router.Run(ctx) }()
	owners := newTransport()
	waitFor(t, router, "five owners of all topics", shared)

	direct := &way{name: "direct", send: func(r *http.Request) (*http.Response, error) {
		owner, _ := router.Owner(r.Header.Get("Shardctl-Key"))
		r.URL.Host = owner.Address
		return owners.RoundTrip(r)
	}}
	routed := &way{name: "Router", send: router.Transport(client.RouteOptions{Base: owners}).RoundTrip}
	forwarded := &way{name: "/route", send: func(r *http.Request) (*http.Response, error) {
		r.URL.Path = "/route/" + r.Header.Get("Shardctl-Key") + "/"
		return door.RoundTrip(r)
	}}
	for _, w := range []*way{direct, routed, forwarded} {
		stop := load(t.Context(), *rate, w)
		time.Sleep(2 * time.Second) // how long is measured
		stop()
		w.figures(t, "steady")
	}
	stop := load(t.Context(), *rate, routed, forwarded)
	begin := time.Now()
	for i, old := range processes {
		instance := fmt.Sprintf("new-%d", i)
		processes[i] = start(t, store, instance)
		waitFor(t, router, instance+" to own topics", func(owning map[string]int) bool { return owning[instance] > 0 })
		door.use(processes[i].address)
		old.stop(t)
	}
	waitFor(t, router, "five owners again", shared)
	took := time.Since(begin)
	stop()
	t.Logf("figure: the rolling update took %s at %d requests a second", took.Round(100*time.Millisecond), *rate)
	var stamps []stamp
	for _, w := range []*way{direct, routed, forwarded} {
		w.figures(t, "update")
		if len(w.lost) > 0 {
			t.Errorf("%s: %d requests were lost, the first: %v", w.name, len(w.lost), w.lost[0])
		}
		stamps = append(stamps, w.stamps...)
	}
	judge(t, stamps)
	cancel()
	if err := <-following; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, p := range processes {
		p.stop(t)
	}
}

// judge holds that the answers for a key under one token were over when those under the next one began.
func judge(t *testing.T, stamps []stamp) {
	t.Helper()
	slices.SortFunc(stamps, func(a, b stamp) int { return int(a.Began - b.Began) })
	newest, moved := map[string]stamp{}, 0
	for _, s := range stamps {
		last := newest[s.Key]
		switch {
		case s.Token < last.Token:
			t.Errorf("%s: answered under token %d after token %d", s.Key, s.Token, last.Token)
		case s.Token > last.Token && s.Began < last.Ended:
			t.Errorf("%s: answered under tokens %d and %d at once", s.Key, last.Token, s.Token)
		case s.Token > last.Token && last.Token > 0:
			moved++
		}
		if s.Ended > last.Ended {
			newest[s.Key] = s
		}
	}
	t.Logf("figure: %d answers for %d topics, %d changes of owner", len(stamps), len(newest), moved)
	if len(newest) != 100 || moved < 100 {
		t.Errorf("%d topics and %d changes of owner: want 100 and as many at least", len(newest), moved)
	}
}

// frontDoor is the process that is asked for owners, and to forward: one that is to stay.
type frontDoor struct {
	mu      sync.Mutex
	address string
	base    *http.Transport
}

func newTransport() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 256} }

func (d *frontDoor) use(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.address = address
}

// RoundTrip implements [http.RoundTripper].
func (d *frontDoor) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	if d.base == nil {
		d.base = newTransport()
	}
	to, base := d.address, d.base
	d.mu.Unlock()
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = to, ""
	return base.RoundTrip(r)
}

// owning counts the topics that each instance owns.
func owning(r *client.Router) map[string]int {
	of := map[string]int{}
	for i := range 100 {
		if owner, ok := r.Owner(fmt.Sprintf("topics/topic-%03d", i+1)); ok {
			of[owner.Instance]++
		}
	}
	return of
}

// waitFor waits until that is so of the topics that instances own.
func waitFor(t *testing.T, r *client.Router, what string, done func(owning map[string]int) bool) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); !done(owning(r)); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited too long for %s: %v", what, owning(r))
		}
	}
}

// shared says whether five instances own all topics.
func shared(owning map[string]int) bool {
	sum := 0
	for _, n := range owning {
		sum += n
	}
	return sum == 100 && len(owning) == 5
}
