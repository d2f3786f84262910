package replica

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// taskRequests is what operators ask of single tasks, ready to look up. It may be used from many goroutines.
type taskRequests struct {
	view func() *cluster.View

	mu       sync.Mutex
	of       []record.Override // what requests were made of
	requests requests
}

// get is what is asked of a task in the newest view. Views share their overrides while these stay as they are.
func (r *taskRequests) get(key elect.Key) taskrun.Asked {
	overrides := r.view().Overrides
	r.mu.Lock()
	defer r.mu.Unlock()
	if !sameSlice(r.of, overrides) {
		r.of, r.requests = overrides, requestsOf(overrides)
	}
	return r.requests.to(key)
}

// requests are what operators ask of tasks.
type requests struct {
	byKey   map[elect.Key]taskrun.Asked
	resumed map[string]int64 // groups: when, Unix ms
}

func requestsOf(overrides []record.Override) requests {
	r := requests{byKey: map[elect.Key]taskrun.Asked{}, resumed: map[string]int64{}}
	for _, o := range overrides {
		if o.Scope == record.ScopeGroup {
			if o.Kind == record.OverrideResume {
				r.resumed[o.Name] = o.Resumed()
			}
			continue
		}
		t := r.byKey[elect.Key(o.Name)]
		switch o.Kind {
		case record.OverrideRestart:
			t.Restart = o.Token
		case record.OverrideRerun:
			t.Rerun = o.Token
		case record.OverrideTrigger:
			t.Trigger = o.Token
		case record.OverrideResume:
			t.Resumed = o.Resumed()
		default:
			continue
		}
		r.byKey[elect.Key(o.Name)] = t
	}
	return r
}

func (r requests) to(key elect.Key) taskrun.Asked {
	t := r.byKey[key]
	t.Resumed = max(t.Resumed, r.resumed[key.Group()])
	return t
}

// sameSlice says whether two slices are one.
func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// watchOverrides calls changed whenever the overrides have changed, until ctx ends.
func watchOverrides(ctx context.Context, c elect.Cluster, changed func()) {
	var last []record.Override
	for {
		news := c.Changed()
		if now := c.View().Overrides; !sameSlice(last, now) {
			last = now
			changed()
		}
		select {
		case <-news:
		case <-c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// ended says whether all keys have an outcome that still counts, and how many of these are failures.
func ended(v *cluster.View, keys []elect.Key) (all bool, failed int) {
	if !v.Loaded {
		return false, 0
	}
	again := requestsOf(v.Overrides)
	for _, key := range keys {
		outcome := v.Lock(key).Status.Outcome
		if rerun := again.to(key).Rerun; outcome == nil || rerun > 0 && rerun >= outcome.Token {
			return false, 0
		}
		if !outcome.Succeeded {
			failed++
		}
	}
	return true, failed
}

// tendEvery is how often a replica looks for overrides that are out of date. It first looks so long after its start:
// where all replicas were down for long, those that come back are seen before.
const tendEvery = 5 * time.Minute

// tendOverrides has overrides forgotten once they are out of date, until ctx ends. It calls tend only when something
// seems to be due by the view; tend goes by the store's clock.
func tendOverrides(
	ctx context.Context, view func() *cluster.View, tend func(context.Context, []elect.Member) (operate.Tending, error),
	log logr.Logger,
) {
	due := time.NewTicker(tendEvery)
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		v := view()
		live := participants(v)
		if !v.Loaded || v.Stale || operate.Tend(v.Overrides, live, time.Now().UnixMilli()).Empty() {
			continue
		}
		switch done, err := tend(ctx, live); {
		case err != nil && ctx.Err() == nil:
			log.Error(err, "Cannot look after what operators asked for; trying again later")
		case err == nil && len(done.Ahead) > 0:
			var names []string
			for _, o := range done.Ahead {
				names = append(names, o.String())
			}
			log.Info("What operators asked for was dated by a clock that was far ahead: it counts as of now", "names", names)
		}
	}
}

// endRetry is the least time between two calls that end overrides.
const endRetry = time.Second

// endOverrides has overrides taken back when their time is over, until ctx ends. By this machine's clock it only knows
// when to call end.
func endOverrides(
	ctx context.Context, c interface {
		View() *cluster.View
		Changed() <-chan struct{}
	}, end func(context.Context) error, log logr.Logger,
) {
	var last time.Time
	for {
		changed := c.Changed()
		var due <-chan time.Time
		if at := nextEnd(c.View()); !at.IsZero() {
			due = time.After(max(time.Until(at), time.Until(last.Add(endRetry))))
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
			return
		case <-due:
		}
		if err := end(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot take back what operators asked for until now; trying again")
		}
		last = time.Now()
	}
}

// nextEnd is when the next override ends by itself, by this machine's clock; zero: none does, or it cannot be known.
func nextEnd(v *cluster.View) time.Time {
	var next int64
	for _, o := range v.Overrides {
		if !o.Kind.Once() && o.Until > 0 && (next == 0 || o.Until < next) {
			next = o.Until
		}
	}
	if next == 0 || !v.Loaded || v.Stale {
		return time.Time{}
	}
	return time.UnixMilli(next).Add(v.Ahead)
}

// participants are the instances that take part.
func participants(v *cluster.View) []elect.Member {
	var list []elect.Member
	for _, s := range v.Sessions {
		if s.Known && s.State != record.Dead {
			list = append(list, s.Member)
		}
	}
	return list
}

// drainLog logs when operators drain or cordon this instance, and when they take that back. It is for one goroutine.
type drainLog struct {
	log      logr.Logger
	instance string
	known    map[record.OverrideKind]bool
}

// note takes what operators ask for now.
func (l *drainLog) note(overrides []record.Override) {
	now := map[record.OverrideKind]bool{}
	for _, o := range overrides {
		if o.Scope != record.ScopeInstance || o.Name != l.instance {
			continue
		}
		if now[o.Kind] = true; !l.known[o.Kind] {
			l.log.Info(
				"An operator wants less of this instance", "verb", string(o.Kind), "by", o.By, "reason", o.Reason,
			)
		}
	}
	for kind := range l.known {
		if !now[kind] {
			l.log.Info("This instance takes part again as before", "verb", "un"+string(kind))
		}
	}
	l.known = now
}

// seenWithin is how long a change is waited for to be seen here once it is written: the answer shows it then.
const seenWithin = 2 * time.Second

func shows(overrides []record.Override, d operate.Decision) bool {
	there := make(map[string]record.Override, len(overrides))
	for _, o := range overrides {
		there[o.ID()] = o
	}
	for _, o := range d.Put {
		if now, ok := there[o.ID()]; !ok || now.By != o.By || now.Reason != o.Reason || now.To != o.To ||
			now.Request != o.Request || now.Token < o.Token {
			return false
		}
	}
	for _, o := range d.Delete {
		if now, ok := there[o.ID()]; ok && now.Rev == o.Rev {
			return false
		}
	}
	return true
}
