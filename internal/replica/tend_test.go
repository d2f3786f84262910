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

// overridden is a cluster whose overrides change.
type overridden struct {
	view    *cluster.View
	changed chan struct{}
}

func (o *overridden) View() *cluster.View      { return o.view }
func (o *overridden) Changed() <-chan struct{} { return o.changed }

func (o *overridden) set(change func(*cluster.View)) {
	v := *o.view
	change(&v)
	before := o.changed
	o.view, o.changed = &v, make(chan struct{})
	close(before)
}

// What ends by itself is taken back when it is due by the store's clock, and again until it is: at once where a time is
// over already, and not while the store does not answer.
func TestWhatEndsByItselfIsTakenBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := &overridden{view: viewOf(), changed: make(chan struct{})}
		var at []time.Duration
		begun := time.Now()
		failing := 1
		end := func(context.Context) error {
			at = append(at, time.Since(begun))
			if failing--; failing >= 0 {
				return errors.New("not now")
			}
			return nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			keepEnding(ctx, c, end, logr.Discard())
		}()
		after := func(d time.Duration, want ...time.Duration) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if !slices.Equal(at, want) {
				t.Errorf("looked at %v, want %v", at, want)
			}
			at = nil
		}
		pause := func(d time.Duration) func(*cluster.View) {
			return func(v *cluster.View) {
				v.Ahead = time.Minute // the store's clock is that much behind
				v.Overrides = []record.Override{
					{Kind: record.OverrideResume, Scope: record.ScopeTask, Name: "g/2", Until: 5},
					{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/1", Until: begun.Add(d).UnixMilli()},
				}
			}
		}
		after(time.Hour)
		c.set(pause(2 * time.Hour))
		after(time.Hour)
		after(time.Minute+1500*time.Millisecond, 2*time.Hour+time.Minute, 2*time.Hour+time.Minute+endAgain)
		c.set(func(v *cluster.View) { v.Stale = true })
		after(time.Hour)
		c.set(func(v *cluster.View) { v.Stale, v.Overrides = false, nil })
		after(time.Hour)
		c.set(pause(time.Hour))
		after(time.Millisecond, 4*time.Hour+time.Minute+1500*time.Millisecond)
		stop()
		<-ended
	})
}
