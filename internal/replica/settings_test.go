package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/viewtest"
)

// TestDeclarationsDoNotOvertake holds that lists read again while the first ones are being declared are declared after
// them. Those in between may be left out.
func TestDeclarationsDoNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := &settings.Settings{Revision: 1}, &settings.Settings{Revision: 2},
			&settings.Settings{Revision: 3}
		l := newSettings(first)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		begun, goOn := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		var declared []int64
		ended := make(chan error, 1)
		go func() {
			ended <- l.keepDeclared(ctx, logr.Discard(), func(_ context.Context, s *settings.Settings, _ view.StoreLists) error {
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
		l := newSettings(&settings.Settings{})
		err := l.keepDeclared(t.Context(), logr.Discard(), func(context.Context, *settings.Settings, view.StoreLists) error {
			next := test.errs[0]
			test.errs = test.errs[1:]
			l.set(&settings.Settings{})
			return next
		})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// TestListsReadBeforeTheStoreIsOpen holds that a reload before there is a store is what is declared then.
func TestListsReadBeforeTheStoreIsOpen(t *testing.T) {
	s := viewtest.Settings(t)
	r := New(Config{Settings: s, Metrics: metrics.New(false), Logger: logr.Discard()})
	changed := *s
	changed.Groups = s.Groups[:1]
	r.Apply(&changed, nil)
	if got := r.Board().Snapshot().Status.Groups; len(got) != 1 || got[0].Name != "g" {
		t.Errorf("got %+v", got)
	}
}

func namesOf(s *settings.Settings) string {
	var names []string
	for _, t := range taskList(s) {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func TestListsTakeWhatIsDiscovered(t *testing.T) {
	l := newSettings(viewtest.Discovering(t, ""))
	declaredAgain := func() bool {
		select {
		case <-l.changed:
			return true
		default:
			return false
		}
	}
	if got := namesOf(l.get()); got != "own" {
		t.Errorf("before any list: %s", got)
	}
	first := viewtest.Discovered(1, "a", "b")
	l.setDiscovered("g", first, "")
	if got := namesOf(l.get()); got != "own a b" || !declaredAgain() {
		t.Errorf("with a list: %s", got)
	}
	before := l.get()
	again := viewtest.Discovered(1, "a", "b")
	again.Entries = first.Entries // as a reader returns what it knows
	again.Status.Found, again.AsOf = 2, 700
	l.setDiscovered("g", again, "")
	if l.get() != before || declaredAgain() {
		t.Error("the same list was declared again")
	}
	s, lists := l.all()
	d := lists.Declared(s)
	if k := d.Groups[0].Keys; len(k) != 3 || k[0].Discovered || !k[1].Discovered || d.Groups[0].AsOf() != 700 ||
		len(d.Names()) != 2 || d.Names()[1] != record.GroupDiscovery {
		t.Errorf("declared %+v, tracking %v", d.Groups[0], d.Names())
	}

	// Another configuration makes the tasks again, of the same list.
	l.set(viewtest.Discovering(t, ", weight: 7"))
	if tasks := taskList(l.get()); len(tasks) != 3 || tasks[1].Weight != 7 || !declaredAgain() {
		t.Errorf("by another template: %+v", tasks)
	}
	// A reading that fails takes nothing away.
	l.setDiscovered("g", viewtest.Discovered(1, "a", "b"), "a chunk is missing")
	if got := namesOf(l.get()); got != "own a b" {
		t.Errorf("after a failure: %s", got)
	}
	l.setDiscovered("g", viewtest.Discovered(2, "b"), "")
	if got := namesOf(l.get()); got != "own b" {
		t.Errorf("with the next list: %s", got)
	}
}
