//go:build unix

package discover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/discover/listers"
	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// Real databases keep a list of many chunks, and show the next one to who read the first.
func TestOnStores(t *testing.T) {
	uris := map[string]func(*testing.T) string{
		"sqlite":  func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "a.db") },
		"mongodb": func(t *testing.T) string { t.Helper(); return testmongo.Shared(t) },
	}
	for name, uri := range uris {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), store.Config{URI: uri(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close(context.Background()) }()
			lookOn(t, db)
		})
	}
}

func lookOn(t *testing.T, db store.Store) {
	t.Helper()
	n := make(chan int, 1)
	f := discover.Functions{"names": func(context.Context) ([]discover.Found, error) {
		all := make([]discover.Found, <-n)
		for i := range all {
			all[i] = discover.Found{Name: fmt.Sprintf("topic-%05d", i), Labels: map[string]string{"a": "b"}}
		}
		return all, nil
	}}
	l := discover.Looker{
		Store: db, Group: "g", Instance: "r1", Lister: listers.NewCallback("names"), Env: discover.Env{Functions: f},
		Interval: time.Second, Rules: discover.Rules{Limit: 20_000}, Logger: testr.New(t),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, 3) }()
	r := discover.NewReader(db, "g")
	for _, want := range []int{12_000, 12_001, 10, 0} {
		n <- want
		await(t, r, want)
	}
	stop()
	select {
	case n <- 0: // it may be asking
	default:
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func await(t *testing.T, r *discover.Reader, want int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		got, err := r.Read(t.Context())
		switch {
		case err != nil:
			t.Fatal(err)
		case got.Revision > 0 && len(got.Entries) == want:
			if want > 0 && got.Entries[want-1].Name != fmt.Sprintf("topic-%05d", want-1) {
				t.Errorf("the last is %+v", got.Entries[want-1])
			}
			return
		case time.Now().After(deadline):
			t.Fatalf("%d are there at revision %d, want %d", len(got.Entries), got.Revision, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
