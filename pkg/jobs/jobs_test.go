package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/jobs"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// lease is long: every tenth of it costs a heartbeat, and the tests play hours.
const lease = 40 * time.Second

// fired is one run, as the job saw it.
type fired struct {
	instance string
	at       time.Duration // its tick, since the start of the bubble
	token    int64
}

// diary is what all processes of a test have run.
type diary struct {
	began time.Time
	mu    sync.Mutex
	all   []fired
	now   int // runs that go on
}

func newDiary() *diary { return &diary{began: time.Now()} }

// job notes its runs, each of which takes so long.
func (d *diary) job(t *testing.T, instance string, takes time.Duration) jobs.Func {
	t.Helper()
	return func(ctx context.Context, run jobs.Run) error {
		d.begin(t, fired{instance, run.ScheduledAt.Sub(d.began), run.Token})
		defer d.end()
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (d *diary) begin(t *testing.T, f fired) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now++; d.now > 1 {
		t.Errorf("%+v begins beside another run", f)
	}
	if n := len(d.all); n > 0 && f.token <= d.all[n-1].token {
		t.Errorf("%+v after %+v: the token must rise", f, d.all[n-1])
	}
	d.all = append(d.all, f)
}

func (d *diary) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now--
}

func (d *diary) runs() []fired {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// ticks are the minutes of the ticks that were run.
func (d *diary) ticks() (all []int) {
	for _, f := range d.runs() {
		all = append(all, int(f.at/time.Minute))
	}
	return all
}

// process is one of those that share jobs.
type process struct {
	*jobs.Manager
	db   *memory.Store
	stop func() // in order
}

// newProcess makes one; add adds its jobs.
func newProcess(
	t *testing.T, db *memory.Store, instance string, add func(m *jobs.Manager), change ...func(*jobs.Config),
) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	client := db.Client()
	elector, err := elect.Start(ctx, elect.Config{
		Store: client, Member: elect.Member{Instance: instance}, LeaseDuration: lease, Clock: elect.GoClock(),
		OnStuck: func(keys []elect.Key) { t.Errorf("stuck: %v", keys) },
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := jobs.Config{Store: client, Elector: elector, Instance: instance, Lease: lease, Logger: logr.Discard()}
	for _, c := range change {
		c(&cfg)
	}
	m, err := jobs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	add(m)
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(running) }()
	p := &process{Manager: m, db: client}
	p.stop = sync.OnceFunc(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", instance, err)
		}
		cancel()
		_ = elector.Wait() // one that is cut off says so
	})
	t.Cleanup(p.stop)
	return p
}

func adds(t *testing.T, spec, name string, f jobs.Func, options ...jobs.Option) func(*jobs.Manager) {
	t.Helper()
	return func(m *jobs.Manager) {
		t.Helper()
		if err := m.Add(spec, name, f, options...); err != nil {
			t.Fatal(err)
		}
	}
}

// twos are the minutes 2, 4, … up to last.
func twos(last int) (all []int) {
	for m := 2; m <= last; m += 2 {
		all = append(all, m)
	}
	return all
}

func TestEachTickIsRunByOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		d, db := newDiary(), memory.New()
		var all []*process
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, newProcess(t, db, name, adds(t, "*/2 * * * *", "report", d.job(t, name, 12*time.Second))))
		}
		time.Sleep(13 * time.Minute)
		owner := d.runs()[0].instance
		for i, name := range []string{"a", "b", "c"} {
			if name == owner {
				all[i].stop()
			}
		}
		time.Sleep(12 * time.Minute)
		if got, want := d.ticks(), twos(24); !slices.Equal(got, want) {
			t.Errorf("ticks %v, want %v", got, want)
		}
		for _, f := range d.runs() {
			if first := f.at <= 12*time.Minute; first != (f.instance == owner) {
				t.Errorf("%+v: the owner until 00:13 was %s", f, owner)
			}
		}
		for _, p := range all {
			p.stop()
		}
	})
}

// A process that is cut off in the middle of a run ends it in time. The tick is not run again, and the next one is
// another's.
func TestACutOffProcessIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, db := newDiary(), memory.New()
		all := map[string]*process{}
		for _, name := range []string{"a", "b"} {
			all[name] = newProcess(t, db, name, adds(t, "*/2 * * * *", "report", d.job(t, name, time.Minute)))
		}
		time.Sleep(4*time.Minute + 24*time.Second) // in the middle of the second run
		owner := d.runs()[1].instance
		all[owner].db.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		time.Sleep(6 * time.Minute)
		runs := d.runs()
		if got, want := d.ticks(), twos(10); !slices.Equal(got, want) {
			t.Fatalf("ticks %v, want %v", got, want)
		}
		for i, f := range runs {
			if (i < 2) != (f.instance == owner) {
				t.Errorf("%+v: the owner until 00:04 was %s", f, owner)
			}
		}
		all[owner].db.Fault(nil)
		time.Sleep(time.Minute)
		for _, p := range all {
			p.stop()
		}
	})
}

// What happens to ticks is decided by the rules of tasks, and the options reach them.
func TestOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		options []jobs.Option
		want    []int
	}{
		"a tick is skipped while the run before it goes on": {nil, []int{2, 6, 10}},
		"a tick ends the run before it":                     {[]jobs.Option{jobs.Replace()}, twos(12)},
		"a run has a limit":                                 {[]jobs.Option{jobs.Timeout(12 * time.Second)}, twos(12)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				p := newProcess(t, memory.New(), "a",
					adds(t, "*/2 * * * *", "long", d.job(t, "a", 3*time.Minute), tt.options...))
				time.Sleep(13 * time.Minute)
				p.stop()
				if got := d.ticks(); !slices.Equal(got, tt.want) {
					t.Errorf("ticks %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// While no process is up, ticks are missed.
func TestMissedTicks(t *testing.T) {
	for name, tt := range map[string]struct {
		options []jobs.Option
		want    []int
	}{
		"the newest one within an hour is run": {nil, []int{2, 12, 14}},
		"none is run":                          {[]jobs.Option{jobs.NoCatchUp()}, []int{2, 14}},
		"none within the window":               {[]jobs.Option{jobs.CatchUpWithin(12 * time.Second)}, []int{2, 14}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, db := newDiary(), memory.New()
				add := adds(t, "*/2 * * * *", "report", d.job(t, "a", time.Second), tt.options...)
				first := newProcess(t, db, "a", add)
				time.Sleep(3 * time.Minute)
				first.stop()
				time.Sleep(10 * time.Minute)
				second := newProcess(t, db, "b", add)
				time.Sleep(2 * time.Minute)
				second.stop()
				if got := d.ticks(); !slices.Equal(got, tt.want) {
					t.Errorf("ticks %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, broken := memory.New(), errors.New("broken")
		n := 0
		p := newProcess(t, db, "a",
			adds(t, "CRON_TZ=Asia/Tokyo */2 * * * *", "report", func(context.Context, jobs.Run) error {
				if n++; n == 2 {
					return broken
				}
				return nil
			}))
		time.Sleep(5 * time.Minute)
		list, err := p.History(t.Context(), "report")
		if err != nil || len(list) != 2 || list[0].Result != record.RunFailed || list[0].Error != "broken" ||
			list[1].Result != record.RunSucceeded || list[0].Token <= list[1].Token || list[0].Instance != "a" {
			t.Errorf("%+v, %v", list, err)
		}
		if other, err := p.History(t.Context(), "other"); err != nil || len(other) != 0 {
			t.Errorf("of no job: %+v, %v", other, err)
		}
		p.stop()
	})
}

func TestAddSaysWhatIsWrong(t *testing.T) {
	m, err := jobs.New(jobs.Config{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	work := func(context.Context, jobs.Run) error { return nil }
	if err := m.Add("@every 5m", "taken", work); err != nil {
		t.Fatal(err)
	}
	for want, add := range map[string]func() error{
		"the name is taken":           func() error { return m.Add("@daily", "taken", work) },
		"its name is empty":           func() error { return m.Add("@daily", "", work) },
		"it is nil":                   func() error { return m.Add("@daily", "a", nil) },
		"it has 4 fields":             func() error { return m.Add("* * * *", "a", work) },
		"this date never comes":       func() error { return m.Add("0 0 30 2 *", "a", work) },
		`timeZone "Mars" is not`:      func() error { return m.Add("CRON_TZ=Mars @daily", "a", work) },
		`timeZone "Moon" is not`:      func() error { return m.Add("@daily", "a", work, jobs.In("Moon")) },
		"invalid duration":            func() error { return m.Add("@every soon", "a", work) },
		"whole milliseconds":          func() error { return m.Add("@every 1us", "a", work) },
		"attempts -1: must not be":    func() error { return m.Add("@daily", "a", work, jobs.Attempts(-1)) },
		"timeout -1s, window 1h0m0s,": func() error { return m.Add("@daily", "a", work, jobs.Timeout(-time.Second)) },
	} {
		if err := add(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := jobs.New(jobs.Config{}); err == nil || !strings.Contains(err.Error(), "store: required") {
		t.Errorf("without a store: %v", err)
	}
}
