package status

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
)

// LogSource holds what tasks of this replica wrote lately.
type LogSource interface {
	// Output returns what is kept of the task; false: it is not held here, and nothing of it is kept. The caller may
	// change the lines.
	Output(key string) (taskrun.Output, bool)
}

const (
	eventBatch = 500
	// scanLimit bounds how many events one request looks at for those that match; the rest is for the next page.
	scanLimit = 20 * eventBatch
)

// eventLog reads events and remembers the newest, to have something to show while the store is unreachable.
type eventLog struct {
	source snapshot.EventSource
	pace   *pace // of reads for strangers

	mu     sync.Mutex
	newest []api.Event
}

func (l *eventLog) read(ctx context.Context, q snapshot.EventQuery) ([]api.Event, error) {
	if l.source == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	events, err := l.source.Events(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.Group == "" && q.To == "" && q.From == "" && q.Since.IsZero() && !q.OldestFirst {
		l.mu.Lock()
		l.newest = events
		l.mu.Unlock()
	}
	return events, nil
}

func (l *eventLog) remembered() []api.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// page is the newest events that match, from where the query continues. With errBusy a stranger would have to wait
// longer for a turn than patience; once something was read, the rest is for the next page instead.
func (l *eventLog) page(
	ctx context.Context, q *query, now time.Time, patience time.Duration,
) (api.List[api.Event], error) {
	var list api.List[api.Event]
	to := q.page.Key
	for scanned := 0; ; scanned += eventBatch {
		none := l.pace.turn(ctx, q.public, patience)
		if none != nil && scanned == 0 {
			return list, none
		}
		if none != nil || scanned >= scanLimit {
			list.Continue = q.next(to, now)
			return list, nil //nolint:nilerr // the rest is for the next page
		}
		batch, err := l.read(ctx, snapshot.EventQuery{Group: q.onlyGroup(), To: to, Since: q.since, Limit: eventBatch})
		if err != nil {
			return list, err
		}
		for i := range batch {
			if !matchEvent(q, &batch[i]) {
				continue
			}
			if len(list.Items) == q.limit {
				list.Continue = q.next(list.Items[q.limit-1].ID, now)
				return list, nil
			}
			list.Items = append(list.Items, *shownEvent(&batch[i], q.hidden))
		}
		if len(batch) < eventBatch {
			return list, nil
		}
		to = batch[len(batch)-1].ID
	}
}

func (l *eventLog) stale(q *query) api.List[api.Event] {
	list := api.List[api.Event]{Stale: true}
	for _, e := range l.remembered() {
		if len(list.Items) < q.limit && matchEvent(q, &e) {
			list.Items = append(list.Items, *shownEvent(&e, q.hidden))
		}
	}
	return list
}

// knows says whether that event is still there, so that a reader can go on after it; false also when a stranger has to
// wait for a turn.
func (l *eventLog) knows(ctx context.Context, id string, public bool) bool {
	if l.pace.turn(ctx, public, answerPatience) != nil {
		return false
	}
	batch, err := l.read(ctx, snapshot.EventQuery{From: id, Limit: 1, OldestFirst: true})
	return err == nil && len(batch) == 1 && batch[0].ID == id
}

// since calls handle with each event that the query selects, the oldest first. One may come twice.
func (l *eventLog) since(
	ctx context.Context, q snapshot.EventQuery, public bool, handle func(*api.Event) error,
) error {
	q.Limit, q.OldestFirst = eventBatch, true
	for {
		if err := l.pace.turn(ctx, public, watchPatience); err != nil {
			return err
		}
		batch, err := l.read(ctx, q)
		if err != nil {
			return err
		}
		for i := range batch {
			if err := handle(&batch[i]); err != nil {
				return err
			}
		}
		if len(batch) < eventBatch {
			return nil
		}
		q.From = batch[len(batch)-1].ID
	}
}

const (
	// mutexAge is how old what is shown of mutexes may be: they are read at most once in it.
	mutexAge = time.Second
	// mutexShare is how many times as long as a reading took it is at least until the next one.
	mutexShare = 20
	// mutexTimeout limits one reading.
	mutexTimeout = 30 * time.Second
	// mutexKept is how long mutexes stay in memory that no one asks for.
	mutexKept = time.Minute
)

// mutexes is a [snapshot.Source] whose snapshots have the locks of programs among the others.
//
// They are not part of every snapshot, as the records of tasks are: no replica needs them for its work. A program may
// have a hundred thousand of them, which change many times a second. Following them would cost each replica their
// reading and their memory. So they are read on request, once for all requests of a moment, for a twentieth of the time
// at most. They are dropped after a minute without a request.
type mutexes struct {
	cluster snapshot.Source      // the locks of tasks, and all else
	from    snapshot.MutexSource // nil: locks are those of tasks alone
	log     logr.Logger
	sem     chan struct{} // held while they are read

	mu     sync.Mutex
	list   []api.Lock // in order
	failed bool       // the last reading
	next   time.Time  // when they are to be read again
	forget *time.Timer

	base   snapshot.List[api.Lock] // without the list
	joined snapshot.List[api.Lock] // base and list; zero: not made
}

func newMutexes(source snapshot.Source, from snapshot.MutexSource, log logr.Logger) *mutexes {
	return &mutexes{cluster: source, from: from, log: log, sem: make(chan struct{}, 1)}
}

// refresh reads the mutexes, unless they were read a moment ago. When it takes longer than ctx or fails, those read
// last are shown, as stale.
func (m *mutexes) refresh(ctx context.Context) {
	if m.from == nil {
		return
	}
	select {
	case m.sem <- struct{}{}:
		defer func() { <-m.sem }()
	case <-ctx.Done():
		return
	}
	m.keep()
	if !m.due() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, mutexTimeout)
	defer cancel()
	began := time.Now()
	list, err := m.from.Mutexes(limited)
	if ctx.Err() != nil {
		return // who asked is gone: the next one reads
	}
	if err != nil {
		m.log.V(1).Info("Mutexes cannot be read: showing those read last", "error", err.Error())
	}
	m.set(list, err, time.Since(began))
}

// keep puts off that they are forgotten.
func (m *mutexes) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forget != nil {
		m.forget.Stop()
	}
	m.forget = time.AfterFunc(mutexKept, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.list, m.failed, m.next = nil, false, time.Time{}
		m.base, m.joined = snapshot.List[api.Lock]{}, snapshot.List[api.Lock]{}
	})
}

func (m *mutexes) due() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !time.Now().Before(m.next)
}

func (m *mutexes) set(list []api.Lock, err error, took time.Duration) {
	snapshot.SortLocks(list)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = time.Now().Add(max(mutexAge, mutexShare*took))
	m.failed = err != nil
	if err == nil && !slices.EqualFunc(m.list, list, func(a, b api.Lock) bool { return sameLock(&a, &b) }) {
		m.list, m.joined = list, snapshot.List[api.Lock]{}
	}
}

// Changed implements [snapshot.Source].
func (m *mutexes) Changed() <-chan struct{} { return m.cluster.Changed() }

// Snapshot implements [snapshot.Source].
func (m *mutexes) Snapshot() *snapshot.Cluster {
	s := m.cluster.Snapshot()
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == nil || len(m.list) == 0 && !m.failed {
		return s
	}
	with := *s
	with.Locks = m.join(s.Locks)
	with.Status.Stale = s.Status.Stale || m.failed
	return &with
}

// join is the locks with the mutexes, in order. While neither has changed it is the same list.
func (m *mutexes) join(locks snapshot.List[api.Lock]) snapshot.List[api.Lock] {
	if m.base != locks || m.joined == (snapshot.List[api.Lock]{}) {
		list := m.list
		m.base, m.joined = locks, snapshot.Later(func() []api.Lock { return mergeLocks(locks.All(), list) })
	}
	return m.joined
}

// mergeLocks is both lists as one. All are in order.
func mergeLocks(locks, mutexes []api.Lock) []api.Lock {
	all := make([]api.Lock, 0, len(locks)+len(mutexes))
	i := 0
	for j := range mutexes {
		for i < len(locks) && snapshot.LockID(&locks[i]) < snapshot.LockID(&mutexes[j]) {
			all = append(all, locks[i])
			i++
		}
		all = append(all, mutexes[j])
	}
	return append(all, locks[i:]...)
}
