package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// Bounds of how often the number of the last change is looked at while nothing is heard.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = time.Second
)

// watcher is one Watch. The hub's lock is held when it is written to.
type watcher struct {
	in store.Interest
	*store.Notifier
}

// hub listens for all watchers of a store, on one connection.
type hub struct {
	*access
	log    logr.Logger
	poll   time.Duration
	silent atomic.Bool // the channel may not be used: polling only

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc // nil: it does not listen
	seq      int64              // number of the last change that watchers know of
}

func newHub(a *access, log logr.Logger) *hub {
	return &hub{
		access: a, log: log, poll: min(max(a.timeout/3, minPoll), maxPoll), watchers: map[*watcher]struct{}{},
	}
}

// watch adds a watcher until ctx or the store's life ends.
func (h *hub) watch(ctx context.Context, life *adapter.Life, in store.Interest) (<-chan store.Notification, error) {
	w := &watcher{in: in, Notifier: store.NewNotifier()}
	bounded, release := life.Bound(ctx)
	err := h.join(bounded, life.Go, w)
	release()
	if err != nil {
		return nil, err
	}
	ended, stop := context.WithCancel(ctx)
	unbind := life.OnEnd(stop)
	context.AfterFunc(ended, func() {
		unbind()
		stop()
		h.leave(w)
	})
	return w.C(), nil
}

// join adds a watcher. The first one begins to listen; that it does is sure when join returns.
func (h *hub) join(ctx context.Context, start func(func()) bool, w *watcher) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if h.stop == nil {
		ears, seq, err := h.listen(ctx)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		if !start(func() { h.run(running, ears) }) {
			stop()
			ears.close()
			return redis.ErrClosed
		}
		h.stop, h.seq = stop, seq
	}
	h.watchers[w] = struct{}{}
	return nil
}

// leave ends a watcher, and the listening with the last one.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	w.Close()
	if len(h.watchers) == 0 {
		h.stop()
		h.stop = nil
	}
}

// ears are one subscription, to the server of one lineage.
type ears struct {
	client  *redis.Client
	sub     *redis.PubSub // nil: the channel may not be used
	lineage string
}

func (e *ears) close() {
	if e == nil || e.client == nil {
		return
	}
	if e.sub != nil {
		_ = e.sub.Close()
	}
	_ = e.client.Close() // it was for this subscription only
}

// listen subscribes, and then asks for the number of the last change: none is between.
func (h *hub) listen(ctx context.Context) (_ *ears, seq int64, err error) {
	e, err := h.subscribe(ctx)
	if err != nil {
		return nil, 0, err
	}
	seq, e.lineage, err = h.last(ctx)
	if err != nil {
		e.close()
		return nil, 0, err
	}
	return e, seq, nil
}

// subscribe is of no use where the user may not: then there is polling only.
func (h *hub) subscribe(ctx context.Context) (*ears, error) {
	if h.silent.Load() {
		return &ears{}, nil
	}
	client, err := h.finder.connect(ctx)
	if err != nil {
		return nil, err
	}
	e := &ears{client: client, sub: client.Subscribe(ctx, h.channel)}
	_, err = e.sub.ReceiveTimeout(ctx, h.timeout)
	switch {
	case err == nil:
		return e, nil
	case !isInvalid(err):
		e.close()
		return nil, err
	}
	e.close()
	h.silent.Store(true)
	return &ears{}, nil
}

// last is the number of the last change that was notified.
func (h *hub) last(ctx context.Context) (int64, string, error) {
	r, err := h.plain(ctx, h.others, pollScript, h.keys.of(store.KindGroup), nil)
	if err != nil {
		return 0, "", err
	}
	text, _ := r.text(0)
	return whole(text), lineage(r.identity), nil
}

// run listens until ctx ends. A subscription that breaks, or is on a server of another lineage, is made again.
func (h *hub) run(ctx context.Context, e *ears) {
	defer func() { e.close() }()
	for ctx.Err() == nil {
		if e == nil {
			e = h.again(ctx)
			continue
		}
		if err := h.hear(ctx, e); err != nil && ctx.Err() == nil {
			h.log.V(1).Info("The notifications of Redis have broken: listening again", "error", err.Error())
			e.close()
			e = nil
		}
	}
}

// again listens again, and has watchers read what they may have missed.
func (h *hub) again(ctx context.Context) *ears {
	limited, cancel := context.WithTimeout(ctx, 2*h.timeout)
	defer cancel()
	e, seq, err := h.listen(limited)
	if err != nil {
		select {
		case <-time.After(h.poll):
		case <-ctx.Done():
		}
		return nil
	}
	h.resync(seq)
	return e
}

// hear takes one message, or looks at the number of the last change when none came for a while.
func (h *hub) hear(ctx context.Context, e *ears) error {
	if e.sub == nil {
		select {
		case <-time.After(h.poll):
			return h.check(ctx, e)
		case <-ctx.Done():
			return nil
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = e.sub.Close() }) // the driver waits for the message, not for ctx
	got, err := e.sub.ReceiveTimeout(ctx, h.poll)
	stop()
	var slow net.Error
	switch {
	case errors.As(err, &slow) && slow.Timeout():
		return h.check(ctx, e)
	case err != nil:
		return err
	}
	if m, ok := got.(*redis.Message); ok {
		h.deliver(m.Payload)
		return nil
	}
	return errors.New("the subscription was made again") // by the driver, on a new connection
}

// errOther says that the subscription is on a server that is not the master any more.
var errOther = errors.New("another server is the master")

func (h *hub) check(ctx context.Context, e *ears) error {
	limited, cancel := context.WithTimeout(ctx, 2*h.timeout)
	defer cancel()
	seq, now, err := h.last(limited)
	switch {
	case err != nil:
		return err
	case now != e.lineage:
		return errOther
	}
	h.mu.Lock()
	same := seq == h.seq
	h.mu.Unlock()
	if !same {
		h.resync(seq)
	}
	return nil
}

// resync has all watchers read everything again.
func (h *hub) resync(seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq = seq
	for w := range h.watchers {
		w.Send(store.Notification{Resync: true})
	}
}

// deliver hands a message on: its number, the kind, and the id, group and reservation of each document.
func (h *hub) deliver(payload string) {
	parts := strings.Split(payload, "\x00")
	kind := store.Kind("")
	if len(parts) >= 2 {
		kind = store.Kind(parts[1])
	}
	if !kind.Valid() || (len(parts)-2)%3 != 0 {
		return // somebody else's, or the probe of a set-up
	}
	seq := whole(parts[0])
	h.mu.Lock()
	defer h.mu.Unlock()
	missed := seq > h.seq+1
	h.seq = max(h.seq, seq) // one from before the subscription may come late
	for w := range h.watchers {
		if missed {
			w.Send(store.Notification{Resync: true})
		}
		for i := 2; i < len(parts); i += 3 {
			if w.in.Wants(named(kind, parts[i], parts[i+1], parts[i+2])) {
				w.Send(store.Notification{Kind: kind, ID: parts[i]})
			}
		}
	}
}

func named(kind store.Kind, id, group, next string) store.Doc {
	return store.Doc{Kind: kind, ID: id, Group: group, Next: next}
}
