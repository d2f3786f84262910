package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// TestOverridesAreTended holds that what operators asked for is looked after every few minutes, by what is known of the
// instances then. Nothing is read while nothing is due or the store is unreachable.
func TestOverridesAreTended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		v := viewOf()
		var seen []string
		times := 0
		tend := func(_ context.Context, live []elect.Member) error {
			times++
			seen = nil
			for _, m := range live {
				seen = append(seen, m.Instance)
			}
			if times == 1 {
				return errors.New("not now") // tried again the next time
			}
			return nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			keepTending(ctx, func() *cluster.View { return v }, tend, logr.Discard())
		}()
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if times != want {
				t.Errorf("%d times, want %d", times, want)
			}
		}
		after(time.Hour, 0)
		override(record.OverrideDrain, "x", "")(v)
		after(tendEvery, 1)
		if len(seen) != 2 || seen[0] != "a" || seen[1] != "b" {
			t.Errorf("%v live, want a and b: c is dead", seen)
		}
		v.Stale = true
		after(tendEvery, 1)
		v.Stale = false
		after(tendEvery, 2)
		v.Overrides = slices.Clone(v.Overrides)
		v.Overrides[0].Seen = time.Now().UnixMilli()
		after(tendEvery, 2)
		v.Overrides = nil
		after(tendEvery, 2)
		stop()
		<-ended
	})
}
