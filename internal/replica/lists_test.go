package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
)

// TestDeclarationsDoNotOvertake holds that lists read again while the first ones are being declared are declared after
// them. Those in between may be left out.
func TestDeclarationsDoNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := &config.Settings{Revision: 1}, &config.Settings{Revision: 2},
			&config.Settings{Revision: 3}
		l := newLists(first)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		begun, goOn := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		var declared []int64
		ended := make(chan error, 1)
		go func() {
			ended <- l.keepDeclared(ctx, logr.Discard(), func(_ context.Context, s *config.Settings, _ read) error {
				if s == first {
					close(begun)
					<-goOn // the store is slow
				}
				mu.Lock()
				defer mu.Unlock()
				declared = append(declared, s.Revision)
				return nil
			})
		}()
		<-begun
		l.set(second)
		l.set(third)
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		mu.Lock()
		if len(declared) != 2 || declared[0] != 1 || declared[1] != 3 {
			t.Errorf("declared %v, want 1 and at last 3", declared)
		}
		mu.Unlock()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOnlyTheFirstDeclarationFails holds what becomes of errors.
func TestOnlyTheFirstDeclarationFails(t *testing.T) {
	refused := errors.New("too large")
	for name, test := range map[string]struct {
		errs []error
		want error
	}{
		"the first fails":       {[]error{refused}, refused},
		"a later one is logged": {[]error{nil, refused, elect.ErrClosed}, nil},
		"closed":                {[]error{elect.ErrClosed}, nil},
	} {
		l := newLists(&config.Settings{})
		err := l.keepDeclared(t.Context(), logr.Discard(), func(context.Context, *config.Settings, read) error {
			next := test.errs[0]
			test.errs = test.errs[1:]
			l.set(&config.Settings{})
			return next
		})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// TestListsReadBeforeTheStoreIsOpen holds that a reload before there is a store is what is declared then.
func TestListsReadBeforeTheStoreIsOpen(t *testing.T) {
	s := settings(t)
	r := New(Config{Settings: s, Metrics: status.NewMetrics(false), Logger: logr.Discard()})
	changed := *s
	changed.Groups = s.Groups[:1]
	r.Apply(&changed, nil)
	if got := r.Board().Snapshot().Status.Groups; len(got) != 1 || got[0].Name != "g" {
		t.Errorf("got %+v", got)
	}
}
