package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"modernc.org/sqlite"

	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// Options of a store. The zero value is ready to use.
type Options struct {
	// Cluster names the tables, so that several clusters may share a file: letters, digits, '.', '-' and '_', at most 63.
	// Default: "default".
	Cluster string
	// PollInterval is how often a watch looks whether the file has changed. Default: 20 ms.
	PollInterval time.Duration
	// Logger is told of rows that somebody has edited into nonsense. The zero value logs nothing.
	Logger logr.Logger
}

// Store is one client of a SQLite file. It implements [store.Store]; its methods may be called concurrently.
type Store struct {
	path string
	file fs.FileInfo // the file as it was opened
	poll time.Duration
	sql  statements

	db      *sql.DB
	writer  chan *writer  // holds the one writer while it is free
	reading chan struct{} // one for each call that reads

	closing context.Context // ends with Close, and the calls under way with it
	close   context.CancelFunc
	mu      sync.Mutex // guards closed against a call that begins
	closed  bool
	calls   sync.WaitGroup
	once    sync.Once
	ended   chan struct{} // closed when Close has let go of everything
	endErr  error

	log  logr.Logger
	told map[string]struct{} // rows that were logged; guarded by mu
}

// readers is how many calls of one store read at once; more wait.
const readers = 4

// Open opens the SQLite file at path, creates it when there is none (its directory has to exist) and sets it up, all within
// ctx. Errors wrap [store.ErrInvalid] when it is no use to try again, [store.ErrSchema] when a newer version of the program set
// the file up, else [elect.ErrUnavailable].
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Cluster == "" {
		o.Cluster = "default"
	}
	if err := checkCluster(o.Cluster); err != nil {
		return nil, err
	}
	if o.PollInterval <= 0 {
		o.PollInterval = 20 * time.Millisecond
	}
	abs, file, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(dsn(abs))
	if err != nil {
		return nil, fmt.Errorf("SQLite file %q: %w: %w", abs, store.ErrInvalid, err)
	}
	s := &Store{
		path: abs, file: file, poll: o.PollInterval, sql: newStatements(o.Cluster),
		db: sql.OpenDB(connector), writer: make(chan *writer, 1), reading: make(chan struct{}, readers), ended: make(chan struct{}),
		log: o.Logger, told: map[string]struct{}{},
	}
	// Not limited here: the writer and each watch keep a connection, and readers must not wait for those.
	s.db.SetMaxOpenConns(0)
	s.db.SetMaxIdleConns(readers)
	s.closing, s.close = context.WithCancel(context.WithoutCancel(ctx))
	s.writer <- &writer{}
	if _, err := await(ctx, s, s.setUp); err != nil {
		err = s.translate("set up", err)
		return nil, joinClose(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// joinClose is err; a failure to close after it is told only beside it.
func joinClose(err, closing error) error {
	if closing != nil {
		return fmt.Errorf("%w (and %w)", err, closing)
	}
	return err
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

func checkCluster(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("cluster %q: %w: want at most 63 letters, digits, '.', '-' and '_'", name, store.ErrInvalid)
	}
	return nil
}

// Close implements [store.Store]. It waits for the calls under way to let go of the file, no longer than ctx.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	s.once.Do(func() {
		go func() {
			defer close(s.ended)
			s.calls.Wait()
			w := <-s.writer
			w.drop()
			if err := s.db.Close(); err != nil {
				s.endErr = s.translate("close", err)
			}
		}()
	})
	select {
	case <-s.ended:
		return s.endErr
	case <-ctx.Done():
		return s.translate("close", ctx.Err())
	}
}

// begin counts a call in, unless the store is closed.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.calls.Add(1)
	return nil
}

// await runs f and waits for it no longer than ctx: a disk that hangs holds up SQLite, but not the caller. f goes on until it
// notices; what it writes then is a write of unknown outcome.
func await[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := s.begin(); err != nil {
		return none, err
	}
	if err := ctx.Err(); err != nil {
		s.calls.Done()
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel) //nolint:contextcheck // Close ends it as well as the caller's context
	type reply struct {
		value T
		err   error
	}
	done := make(chan reply, 1)
	go func() {
		defer s.calls.Done()
		defer stop()
		value, err := f(ctx)
		done <- reply{value, err}
	}()
	defer cancel()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		if s.closing.Err() != nil {
			return none, errClosed
		}
		return none, ctx.Err()
	}
}

// retry tries f until it ends otherwise than because another connection is in the way, or until ctx ends; then with the reason
// it last met.
func retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !busy(err) {
			return err
		}
		// At random, so that waiting processes do not meet again.
		pause := time.NewTimer(time.Duration(1+rand.IntN(4)) * time.Millisecond) //nolint:gosec // no secret hangs on it
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// checkFile fails when the path no longer leads to the file that is open: others may be using another one by now.
func (s *Store) checkFile() error {
	now, err := os.Stat(s.path)
	if err != nil || !os.SameFile(now, s.file) {
		return errReplaced
	}
	return nil
}

// nowMS is the store's clock: all its clients are on one machine.
func nowMS() int64 { return wallclock.Now().UnixMilli() }
