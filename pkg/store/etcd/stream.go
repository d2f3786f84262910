package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Times of a watch.
const (
	// progressEvery is how often it asks for a sign of life: etcd says nothing while nothing changes.
	progressEvery = 5 * time.Second
	// reopenTimes is how many time-outs it may take to begin again before its watchers end.
	reopenTimes = 3
	// reopenPause is between two attempts at one member.
	reopenPause = 100 * time.Millisecond
)

// stream is one tail: a watch of etcd's after the other. Where one breaks, the next goes on at the revision after the
// last one that it saw.
type stream struct {
	*backend
	running context.Context // of the stream, and of each watch that it consists of
	emit    func(dbstore.Event)

	watch   clientv3.Watcher
	cancel  context.CancelFunc // of the watch
	events  clientv3.WatchChan
	next    int64           // the revision to go on at; 0: now
	at      int             // the member
	left    <-chan struct{} // closed when the member is no longer used
	heardAt time.Time
}

var (
	errMoved  = errors.New("another member is used now")
	errEnded  = errors.New("the watch ended")
	errSilent = errors.New("the member has given no sign of life")
)

// Tail implements [dbstore.Watcher]. It continues on another member where it broke off, without loss.
func (b *backend) Tail(ctx context.Context, _ driver.Interest, begun func(), emit func(dbstore.Event)) error {
	s := &stream{backend: b, running: ctx, emit: emit}
	defer s.close()
	if err := s.open(ctx, len(b.link.endpoints.all)); err != nil {
		return err
	}
	begun()
	return s.follow() //nolint:contextcheck // s.running is ctx
}

// open begins a watch at one member after the other, so many times.
func (s *stream) open(ctx context.Context, times int) error {
	for {
		err := s.openOnce(ctx)
		times--
		if err == nil || times == 0 || ctx.Err() != nil || s.causes.Lasting(err) {
			return err
		}
		s.link.endpoints.leave(s.at)
		if clock.Sleep(ctx, reopenPause) != nil {
			return err
		}
	}
}

// openOnce begins a watch and waits until the member has confirmed it. Each is a stream of HTTP/2 of its own: one that
// hangs must not hold up the next. etcd's client waits for a member for ever, so the watch is cancelled meanwhile.
func (s *stream) openOnce(ctx context.Context) error {
	s.close()
	s.at, s.left = s.link.endpoints.current()
	opening, opened := context.WithTimeout(ctx, s.timeout)
	defer opened()
	running, cancel := context.WithCancel(s.running)
	s.cancel, s.watch = cancel, clientv3.NewWatcher(s.link.client)
	confirmed := context.AfterFunc(opening, cancel)
	events := s.watch.Watch( //nolint:contextcheck // it outlives the call that opens it
		clientv3.WithRequireLeader(running), s.keys.notes(), clientv3.WithPrefix(), clientv3.WithRev(s.next),
		clientv3.WithCreatedNotify(), clientv3.WithFragment(),
	)
	resp, ok := <-events
	if !confirmed() || !ok {
		return errors.Join(errEnded, opening.Err())
	}
	if err := answered(resp); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return err
	}
	s.events, s.heardAt = events, time.Now()
	if s.next == 0 {
		s.next = resp.Header.GetRevision() + 1
	}
	return nil
}

func (s *stream) close() {
	if s.watch != nil {
		s.cancel()
		_ = s.watch.Close() // it was cancelled, or broke
		s.watch = nil
	}
}

// follow emits events until the stream is to end, or cannot go on.
func (s *stream) follow() error {
	ask := time.NewTicker(progressEvery)
	defer ask.Stop()
	for {
		err := s.wait(ask.C)
		if err != nil && s.running.Err() == nil {
			err = s.reopen(err)
		}
		if s.running.Err() != nil {
			return context.Cause(s.running)
		}
		if err != nil {
			return err
		}
	}
}

// wait takes one response, or asks for one. An error says why the watch must begin again.
func (s *stream) wait(ask <-chan time.Time) error {
	select {
	case resp, ok := <-s.events:
		if !ok {
			return errEnded
		}
		if err := answered(resp); err != nil {
			return err
		}
		s.heardAt = time.Now()
		s.deliver(resp)
		return nil
	case <-s.left:
		return errMoved
	case <-ask:
		return s.askProgress()
	case <-s.running.Done():
		return nil
	}
}

// askProgress asks for a sign of life. A member from which none has come is left.
func (s *stream) askProgress() error {
	ctx, cancel := context.WithTimeout(s.running, s.timeout)
	defer cancel()
	err := errSilent
	if time.Since(s.heardAt) < progressEvery+max(s.timeout, minConnectTimeout) {
		err = s.watch.RequestProgress(clientv3.WithRequireLeader(ctx))
	}
	if err != nil {
		s.link.endpoints.leave(s.at)
	}
	return err
}

// deliver emits what a response brings. Its header may be ahead of its events: who catches up gets those
// of a thousand revisions at a time (watchBatchMaxRevs of etcd's server). So the place is after the last event.
func (s *stream) deliver(resp clientv3.WatchResponse) {
	next := resp.Header.GetRevision() + 1 // without events it is a sign of life: all up to it has come
	for _, e := range resp.Events {
		next = e.Kv.ModRevision + 1
		if e.Type != clientv3.EventTypePut { // notes are overwritten, never deleted but by other tools
			continue
		}
		if noted, ok := s.docs.noted(e.Kv); ok {
			s.emit(noted)
		}
	}
	s.next = max(s.next, next)
}

// reopen begins again where the watch broke off.
func (s *stream) reopen(why error) error {
	lost := errors.Is(why, rpctypes.ErrCompacted)
	if lost {
		s.next = 0
	}
	ctx, cancel := context.WithTimeout(s.running, reopenTimes*s.timeout)
	defer cancel()
	if err := s.open(ctx, -1); err != nil {
		return errors.Join(why, err)
	}
	if lost {
		s.emit(dbstore.Event{Resync: true})
	}
	return nil
}
