package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Bounds of how often the number of the last change is looked at while nothing is heard.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = time.Second
)

// listener is one tail, on one connection.
type listener struct {
	*backend
	poll time.Duration
	seq  int64 // number of the last change that watchers know of
	emit func(dbstore.Event)
}

// Tail implements [dbstore.Watcher], on the server of one lineage. Events carry no documents: a master that was deposed
// may have sent them.
func (b *backend) Tail(ctx context.Context, _ driver.Interest, begun func(), emit func(dbstore.Event)) error {
	l := &listener{backend: b, poll: min(max(b.timeout/3, minPoll), maxPoll), emit: emit}
	opening, opened := context.WithTimeout(ctx, b.timeout)
	defer opened()
	s, err := l.listen(opening)
	if err != nil {
		return err
	}
	defer s.close()
	begun()
	for err == nil && ctx.Err() == nil {
		err = l.receive(ctx, s)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// subscription is to the server of one lineage.
type subscription struct {
	client  *redis.Client
	pubsub  *redis.PubSub // nil: the channel may not be used
	lineage string
}

func (s *subscription) close() {
	if s.pubsub != nil {
		_ = s.pubsub.Close()
		_ = s.client.Close() // it was for this subscription only
	}
}

// listen subscribes, and then asks for the number of the last change: none is between.
func (l *listener) listen(ctx context.Context) (*subscription, error) {
	s, err := l.subscribe(ctx)
	if err != nil {
		return nil, err
	}
	if l.seq, s.lineage, err = l.last(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// subscribe is of no use where the user may not: then there is polling only.
func (l *listener) subscribe(ctx context.Context) (*subscription, error) {
	if l.silent.Load() {
		return &subscription{}, nil
	}
	s, err := l.subscriptions.Get(ctx, true)
	switch {
	case err == nil:
		return s, nil
	case !l.causes.Lasting(err):
		return nil, err
	}
	l.silent.Store(true)
	return &subscription{}, nil
}

// last is the number of the last change that was notified.
func (l *listener) last(ctx context.Context) (int64, string, error) {
	r, err := l.plain(ctx, l.others, pollScript, l.keys.of(driver.KindGroup), nil)
	if err != nil {
		return 0, "", err
	}
	text, _ := r.text(0)
	return whole(text), lineage(r.identity), nil
}

// receive takes one message, or looks at the number of the last change when none came for a while.
func (l *listener) receive(ctx context.Context, s *subscription) error {
	if s.pubsub == nil {
		select {
		case <-time.After(l.poll):
			return l.check(ctx, s)
		case <-ctx.Done():
			return nil
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.pubsub.Close() }) // the driver waits for the message, not for ctx
	got, err := s.pubsub.ReceiveTimeout(ctx, l.poll)
	stop()
	var slow net.Error
	switch {
	case errors.As(err, &slow) && slow.Timeout():
		return l.check(ctx, s)
	case err != nil:
		return err
	}
	if m, ok := got.(*redis.Message); ok {
		l.deliver(m.Payload)
		return nil
	}
	return errors.New("the subscription was made again") // by the driver, on a new connection
}

// errOther says that the subscription is on a server that is not the master any more.
var errOther = errors.New("another server is the master")

func (l *listener) check(ctx context.Context, s *subscription) error {
	limited, cancel := context.WithTimeout(ctx, 2*l.timeout)
	defer cancel()
	seq, now, err := l.last(limited)
	switch {
	case err != nil:
		return err
	case now != s.lineage:
		return errOther
	}
	if seq != l.seq {
		l.seq = seq
		l.emit(dbstore.Event{Resync: true})
	}
	return nil
}

// deliver hands a message on: its number, the kind, and the id, group and reservation of each document.
func (l *listener) deliver(payload string) {
	parts := strings.Split(payload, "\x00")
	kind := driver.Kind("")
	if len(parts) >= 2 {
		kind = driver.Kind(parts[1])
	}
	if !kind.Valid() || (len(parts)-2)%3 != 0 {
		return // somebody else's, or the probe of a set-up
	}
	seq := whole(parts[0])
	missed := seq > l.seq+1
	l.seq = max(l.seq, seq) // one from before the subscription may come late
	if missed {
		l.emit(dbstore.Event{Resync: true})
	}
	for i := 2; i < len(parts); i += 3 {
		l.emit(dbstore.Event{About: driver.Doc{Kind: kind, ID: parts[i], Group: parts[i+1], Next: parts[i+2]}})
	}
}
