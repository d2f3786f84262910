package elect_test

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// ends are the ways in which a run is asked to end while its lease is good.
var ends = map[string]func(ctx context.Context, a *node) error{
	"unlock":   func(ctx context.Context, a *node) error { return a.Unlock(ctx, "g/k") },
	"close":    func(ctx context.Context, a *node) error { return a.Close(ctx) },
	"max hold": func(context.Context, *node) error { return nil },
}

// keepers are the ways in which a run keeps a value.
var keepers = map[string]func(l *elect.Lease) elect.Checkpoint{
	"lease":      func(l *elect.Lease) elect.Checkpoint { return l },
	"checkpoint": func(l *elect.Lease) elect.Checkpoint { return l.Checkpoint() },
	"batched":    func(l *elect.Lease) elect.Checkpoint { return elect.NewBatched(l, 0) },
}

// endOf has a run of g/k end in one of these ways, and gives how long last took, and what it returned. last is called
// with the run's context, a while before that has ended (during), or once it has.
func endOf(
	in bubble, end string, during bool, last func(ctx context.Context, l *elect.Lease) error,
) (took time.Duration, result error) {
	in.t.Helper()
	var began time.Time
	done, holds := make(chan error, 1), make(chan struct{})
	options := elect.LockOptions{WaitForever: true}
	if end == "max hold" {
		options.MaxHold = time.Second
	}
	ok, err := in.a.LockWith(in.t.Context(), "g/k", options, func(ctx context.Context, l *elect.Lease) error {
		time.Sleep(time.Second - lease/40)
		close(holds)
		if !during {
			<-ctx.Done()
		}
		began = time.Now()
		done <- last(ctx, l)
		return nil
	})
	if !ok || err != nil {
		in.t.Fatalf("Lock = %v, %v", ok, err)
	}
	<-holds
	time.Sleep(lease / 40)
	if err := ends[end](in.t.Context(), in.a); err != nil {
		in.t.Errorf("%s: %v", end, err)
	}
	result = <-done
	return time.Since(began), result
}

// A run that was asked to end keeps how far it came, under its own context, also where the end comes while it does.
func TestLastValueOfARun(t *testing.T) {
	for end := range ends {
		for name, keeper := range keepers {
			for when, during := range map[string]bool{"after": false, "during": true} {
				t.Run(end+"/"+name+"/"+when, func(t *testing.T) {
					valueTest(t, func(in bubble) {
						t := in.t
						countValueCalls(in.a, func(memory.Call) memory.Verdict {
							return memory.Verdict{Delay: lease / 20}
						})
						_, err := endOf(in, end, during, func(ctx context.Context, l *elect.Lease) error {
							return keeper(l).SetValue(ctx, []byte("last"))
						})
						if err != nil {
							t.Error(err)
						}
						if d := valueDoc(t, in.db); string(d.Body) != "last" {
							t.Errorf("kept %q, want last", d.Body)
						}
					})
				})
			}
		}
	}
}

// A store that is away holds a run up that was asked to end until its lease's deadline, and not for longer. What the
// caller limits ends at its own limit.
func TestLastValueWhileTheStoreIsAway(t *testing.T) {
	for name, keeper := range keepers {
		for limit, most := range map[time.Duration]time.Duration{0: lease, lease / 10: lease / 10} {
			t.Run(name+" within "+most.String(), func(t *testing.T) {
				valueTest(t, func(in bubble) {
					t := in.t
					took, err := endOf(in, "unlock", false, func(ctx context.Context, l *elect.Lease) error {
						countValueCalls(in.a, func(memory.Call) memory.Verdict {
							return memory.Verdict{Fault: memory.LoseRequest}
						})
						if limit > 0 {
							limited, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
							defer stop()
							ctx = limited
						}
						return keeper(l).SetValue(ctx, []byte("last"))
					})
					if err == nil || took > most {
						t.Errorf("it took %v: %v; want an error within %v", took, err, most)
					}
				})
			})
		}
	}
}
