package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func TestWaitForStore(t *testing.T) {
	failed := fmt.Errorf("dial: %w", elect.ErrUnavailable)
	wrong := fmt.Errorf("log in: %w", store.ErrInvalid)
	for name, test := range map[string]struct {
		limit   time.Duration
		errs    []error // of the tries, in order; then it opens
		want    error
		reports int
		atMost  time.Duration
	}{
		"there":                   {limit: time.Minute},
		"there, no waiting":       {},
		"unreachable, no waiting": {errs: []error{failed}, want: elect.ErrUnavailable},
		"unreachable for a while": {
			limit: time.Minute, errs: []error{failed, failed, failed}, reports: 3, atMost: 2 * time.Second,
		},
		"unreachable for too long": {
			limit: 2500 * time.Millisecond, errs: slowly(failed, 100), want: elect.ErrUnavailable, reports: 4,
			atMost: 2500 * time.Millisecond,
		},
		"no use in trying again": {
			limit: time.Minute, errs: []error{failed, wrong}, want: store.ErrInvalid, reports: 1, atMost: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, reports, began := 0, 0, time.Now()
				db, err := WaitForStore(t.Context(), test.limit, func(context.Context) (store.Store, error) {
					tries++
					if tries <= len(test.errs) {
						return nil, test.errs[tries-1]
					}
					return memory.New(), nil
				}, func(err error, next time.Duration) {
					reports++
					if err == nil || next <= 0 || next > openPauses {
						t.Errorf("reported %v, next try in %v", err, next)
					}
				})
				if !errors.Is(err, test.want) || (err == nil) != (db != nil) {
					t.Errorf("got %v, %v", db, err)
				}
				if reports != test.reports || time.Since(began) > test.atMost {
					t.Errorf(
						"reported %d times in %v, want %d times in at most %v", reports, time.Since(began),
						test.reports,
						test.atMost,
					)
				}
			})
		})
	}
}

func slowly(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func TestWaitForStoreIsAskedToLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := errors.New("leaving")
		ctx, leave := context.WithCancelCause(t.Context())
		_, err := WaitForStore(ctx, time.Minute, func(ctx context.Context) (store.Store, error) {
			leave(leaving)
			return nil, fmt.Errorf("%w: %w", elect.ErrUnavailable, ctx.Err())
		}, func(error, time.Duration) { t.Error("a try that was cut off says nothing of the store") })
		if !errors.Is(err, leaving) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOpenStoreRefusesWithoutThePassword(t *testing.T) {
	for _, uri := range []string{
		"sqlite:" + t.TempDir(), "mongodb://user:opensesame@127.0.0.1:1/x?authMechanism=none",
	} {
		s := settings.Settings{
			Cluster: "c", Store: settings.Store{URI: uri, Database: "x"}, Lease: settings.Lease{Duration: 20 * time.Second},
		}
		db, err := store.Open(t.Context(), s.StoreConfig(logr.Discard()))
		if err == nil || db != nil || strings.Contains(err.Error(), "opensesame") {
			t.Errorf("%s: got %v, %v", uri, db, err)
		}
	}
}
