package replica

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/store"
)

const (
	// readEvery is how often the lists are read although no one said that they have changed.
	readEvery = 30 * time.Second
	readRetry = time.Second
	firstRead = 2 * time.Second // how long the first declaration waits for the lists
)

// listReader keeps the lists of what was discovered, and of weights, as they are in the store.
type listReader struct {
	db      store.Store
	lists   *lists
	op      time.Duration // of one operation
	log     logr.Logger
	found   map[string]*discovery.Reader
	weights map[string]*weights.Reader
}

func newListReader(db store.Store, l *lists, op time.Duration, log logr.Logger) *listReader {
	return &listReader{
		db: db, lists: l, op: op, log: log, found: map[string]*discovery.Reader{},
		weights: map[string]*weights.Reader{},
	}
}

// readAll reads the lists of all groups that have any. ok says that all could be read.
func (r *listReader) readAll(ctx context.Context) (ok bool) {
	ok = true
	s, _ := r.lists.files()
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Discover != nil {
			ok = r.readFound(ctx, g.Name) && ok
		}
		if g.WeightFrom == config.WeightLag {
			ok = r.readWeights(ctx, g.Name) && ok
		}
	}
	return ok
}

func (r *listReader) readFound(ctx context.Context, group string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.op)
	defer cancel()
	found, err := readerOf(r.found, group, r.db, discovery.NewReader).Read(ctx)
	switch {
	case err == nil:
		r.lists.discovered(group, found, "")
	case errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil: // StoreUnreachable says it
		r.log.V(1).Info("The list of what was discovered could not be read", "group", group, "error", err.Error())
	default:
		r.lists.discovered(group, found, err.Error())
	}
	return err == nil
}

// readWeights reads the weights of a group. Where they cannot be read whole, those read last count: who publishes them
// makes them whole.
func (r *listReader) readWeights(ctx context.Context, group string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.op)
	defer cancel()
	p, err := readerOf(r.weights, group, r.db, weights.NewReader).Read(ctx)
	if err != nil {
		r.log.V(1).Info("Weights could not be read", "group", group, "error", err.Error())
		return false
	}
	r.lists.weighed(group, p)
	return true
}

// readerOf is the reader of a group's list. It is made once: what it has read, it does not read again.
func readerOf[R any](all map[string]*R, group string, db store.Store, open func(store.Store, string) *R) *R {
	if all[group] == nil {
		all[group] = open(db, group)
	}
	return all[group]
}

// keepReading reads the lists when there may be newer ones, until ctx ends. changed is called after each reading.
func (r *listReader) keepReading(ctx context.Context, published func() <-chan struct{}, changed func()) {
	for {
		news := published()
		_, reloaded := r.lists.files()
		pause := readEvery
		if !r.readAll(ctx) {
			pause = readRetry
		}
		changed()
		timer := time.NewTimer(pause)
		select {
		case <-news:
		case <-reloaded:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
