package replica

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

const (
	// readEvery is how often the lists of what was discovered are read although no one said that they have changed.
	readEvery = 30 * time.Second
	readRetry = time.Second
	firstRead = 2 * time.Second // how long the first declaration waits for the lists
)

// listReader keeps the lists of what was discovered as they are in the store.
type listReader struct {
	db      store.Store
	lists   *lists
	op      time.Duration // of one operation
	log     logr.Logger
	readers map[string]*discovery.Reader
}

// readAll reads the lists of all groups that have discover. ok says that all could be read.
func (r *listReader) readAll(ctx context.Context) (ok bool) {
	ok = true
	s, _ := r.lists.files()
	for i := range s.Groups {
		if s.Groups[i].Discover != nil {
			ok = r.read(ctx, s.Groups[i].Name) && ok
		}
	}
	return ok
}

func (r *listReader) read(ctx context.Context, group string) bool {
	reader := r.readers[group]
	if reader == nil {
		reader = discovery.NewReader(r.db, group)
		r.readers[group] = reader
	}
	ctx, cancel := context.WithTimeout(ctx, r.op)
	defer cancel()
	published, err := reader.Read(ctx)
	switch {
	case err == nil:
		r.lists.discovered(group, published, "")
	case errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil: // StoreUnreachable says it
		r.log.V(1).Info("The list of what was discovered could not be read", "group", group, "error", err.Error())
	default:
		r.lists.discovered(group, published, err.Error())
	}
	return err == nil
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
