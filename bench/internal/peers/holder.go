//go:build linux

package peers

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// target is where a holder's system is, and how the holder is to use it.
type target struct {
	uri, token, name string
	lease            time.Duration
}

// Holder is the main function of a process that holds locks. It reads orders, and answers each in a line, with times of
// package history:
//
//	open KEY      opened KEY BEGIN END     a client for the caller of this key
//	acquire KEY   acquired KEY BEGIN END
//	release KEY   released KEY BEGIN END
//	work KEY      works KEY BEGIN END      it begins to act under the lock
//	report KEY    reports KEY LAST TOLD    when it acted last, and when the loss was reported to it; 0: never
//
// or "failed KEY TEXT". A key LOCK#CALLER is a lock and one of several callers, each with a client of its own. It ends
// with its input, and releases nothing then.
func Holder(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("holder", flag.ContinueOnError)
	peer := flags.String("peer", "", "the system")
	var t target
	flags.StringVar(&t.uri, "uri", "", "where it is")
	flags.StringVar(&t.token, "token", "", "what to show there")
	flags.StringVar(&t.name, "name", "", "this holder")
	flags.DurationVar(&t.lease, "lease", 0, "T")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, found := byID(*peer)
	if !found {
		return fmt.Errorf("peer %q is not known", *peer)
	}
	h := &holder{peer: p, target: t, out: out, clients: map[string]locks{}, claims: map[string]*claim{}}
	begin := history.Now()
	if err := h.connect(ctx, ""); err != nil {
		return err
	}
	h.answer("opened", "-", begin, nil)
	return h.serve(ctx, in)
}

// holder carries orders out, each in a goroutine.
type holder struct {
	peer   Peer
	target target

	mu      sync.Mutex // of all below
	out     io.Writer
	clients map[string]locks // by caller
	claims  map[string]*claim
}

// claim is a lock that is held by a caller, and what that does under it.
type claim struct {
	held
	work
}

func (h *holder) serve(ctx context.Context, in io.Reader) error {
	orders := map[string]func(context.Context, string){
		"open": h.open, "acquire": h.acquire, "release": h.release, "work": h.work, "report": h.report,
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, key, _ := strings.Cut(lines.Text(), " ")
		order := orders[verb]
		if order == nil {
			return fmt.Errorf("%q is no order", lines.Text())
		}
		go order(ctx, key)
	}
	return nil
}

// connect makes the client of a caller; the first is that of keys without one.
func (h *holder) connect(ctx context.Context, caller string) error {
	t := h.target
	t.name += caller
	l, err := h.peer.open(ctx, t)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients[caller] = l
	return nil
}

func (h *holder) open(ctx context.Context, key string) {
	begin := history.Now()
	_, caller, _ := strings.Cut(key, "#")
	h.answer("opened", key, begin, h.connect(ctx, caller))
}

func (h *holder) acquire(ctx context.Context, key string) {
	name, caller, _ := strings.Cut(key, "#")
	h.mu.Lock()
	client := h.clients[caller]
	h.mu.Unlock()
	begin := history.Now()
	held, err := client.acquire(ctx, h.peer.id+"-"+name)
	if err == nil {
		h.mu.Lock()
		h.claims[key] = &claim{held: held}
		h.mu.Unlock()
	}
	h.answer("acquired", key, begin, err)
}

// claim is what is held under a key; nil: nothing.
func (h *holder) claim(key string) *claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claims[key]
}

var errNotHeld = errors.New("not held")

func (h *holder) release(ctx context.Context, key string) {
	claim, begin := h.claim(key), history.Now()
	if claim == nil {
		h.answer("released", key, begin, errNotHeld)
		return
	}
	h.mu.Lock()
	delete(h.claims, key)
	h.mu.Unlock()
	begin = history.Now()
	h.answer("released", key, begin, claim.release(ctx))
}

func (h *holder) work(_ context.Context, key string) {
	claim, begin := h.claim(key), history.Now()
	if claim == nil {
		h.answer("works", key, begin, errNotHeld)
		return
	}
	go claim.begin(claim.lost)
	h.answer("works", key, begin, nil)
}

func (h *holder) report(_ context.Context, key string) {
	claim := h.claim(key)
	if claim == nil {
		h.answer("reports", key, 0, errNotHeld)
		return
	}
	last, told := claim.report()
	h.say("reports", key, last, told)
}

func (h *holder) answer(what, key string, begin history.Instant, err error) {
	end := history.Now()
	if err == nil {
		h.say(what, key, begin, end)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(h.out, "failed %s %s\n", key, strings.ReplaceAll(err.Error(), "\n", " "))
}

func (h *holder) say(what, key string, begin, end history.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(h.out, "%s %s %d %d\n", what, key, int64(begin), int64(end))
}

// locks are what a caller has of one system.
type locks interface {
	// acquire waits until the key is held here, and keeps it held.
	acquire(ctx context.Context, key string) (held, error)
}

// held is a lock that is held.
type held struct {
	// release gives it back and returns when that is acknowledged.
	release func(context.Context) error
	// lost says whether the system has reported that the lock is lost. nil: it never does.
	lost func() bool
}

// ended says whether a channel is closed.
func ended(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}

// renewal renews a lock whose library leaves that to its users.
type renewal struct {
	cancel context.CancelFunc
	done   chan struct{}
	broken atomic.Bool
}

// renewed calls renew again and again until stop. After an error it goes on: failed reports that to the caller.
func renewed(ctx context.Context, every time.Duration, renew func(context.Context) error) *renewal {
	ctx, cancel := context.WithCancel(ctx)
	r := &renewal{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				if renew(ctx) != nil && ctx.Err() == nil {
					r.broken.Store(true)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}

// stop waits for the call that is under way.
func (r *renewal) stop() {
	r.cancel()
	<-r.done
}

// failed says whether any call was an error.
func (r *renewal) failed() bool { return r.broken.Load() }

// stampEvery is the time between two looks of work.
const stampEvery = time.Millisecond

// work is what a holder does that believes itself alone: it takes the time again and again, until the loss is reported.
type work struct {
	mu   sync.Mutex
	last history.Instant // when it acted last
	told history.Instant // 0: not yet
}

// begin asks before each act whether the lock is lost, as a careful user does.
func (w *work) begin(lost func() bool) {
	for {
		is := lost != nil && lost()
		w.mu.Lock()
		if is {
			w.told = history.Now()
			w.mu.Unlock()
			return
		}
		w.last = history.Now()
		w.mu.Unlock()
		time.Sleep(stampEvery)
	}
}

func (w *work) report() (last, told history.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.told
}
