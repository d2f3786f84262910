package jobs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/robfig/cron/v3"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/jobs"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Every process has a clockwork of its own, and each tick is run once.
func TestOnceInACron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, db := newDiary(), memory.New()
		var stops []func()
		for i, name := range []string{"a", "b", "c"} {
			p := newProcess(t, db, name, func(*jobs.Manager) {})
			// Wrappers hold jobs up: the others come while the first runs, and after it.
			held := func(job cron.Job) cron.Job {
				return cron.FuncJob(func() { time.Sleep(time.Duration(i) * 3 * time.Second / 2); job.Run() })
			}
			c := cron.New(cron.WithLocation(time.UTC), cron.WithChain(held))
			job := cron.FuncJob(func() {
				d.begin(t, fired{
					instance: name, at: time.Since(d.began).Truncate(time.Minute),
					token: int64(len(d.runs()) + 1),
				})
				time.Sleep(2 * time.Second)
				d.end()
			})
			if _, err := p.AddJob(c, "*/2 * * * *", "report", job); err != nil {
				t.Fatal(err)
			}
			c.Start()
			stops = append(stops, func() { <-c.Stop().Done(); p.stop() })
		}
		time.Sleep(13 * time.Minute)
		if got, want := d.ticks(), twos(12); !slices.Equal(got, want) {
			t.Errorf("ticks %v, want %v", got, want)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

func TestOnceRefuses(t *testing.T) {
	m, err := jobs.New(jobs.Config{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	c := cron.New()
	if _, err := m.AddJob(c, "@every 5m", "a", cron.FuncJob(func() {})); err == nil || len(c.Entries()) != 0 {
		t.Errorf("@every was added: %v, %v", err, c.Entries())
	}
	if _, err := m.AddJob(c, "@often", "a", cron.FuncJob(func() {})); err == nil {
		t.Error("@often was added")
	}
	if _, err := m.Once("", cron.Every(time.Minute), nil); err == nil {
		t.Error("an empty name was taken")
	}
	schedule, err := cron.ParseStandard("@daily")
	if err != nil {
		t.Fatal(err)
	}
	wrap, err := m.Once("a", schedule, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrap(cron.FuncJob(func() { t.Error("it ran without Run of the manager") })).Run()
}

// A job that panics, or is in another time zone, is as any other.
func TestOnceKeepsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		p := newProcess(t, memory.New(), "a", func(*jobs.Manager) {})
		tokyo, err := time.LoadLocation("Asia/Tokyo")
		if err != nil {
			t.Fatal(err)
		}
		c, n := cron.New(cron.WithLocation(tokyo)), 0
		_, err = p.AddJob(c, "2,4 9 * * *", "report", cron.FuncJob(func() {
			if n++; n == 2 {
				panic(errors.New("broken"))
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		began := time.Now()
		time.Sleep(5 * time.Minute)
		list, err := p.History(t.Context(), "report")
		if err != nil || len(list) != 2 || list[0].Result != record.RunFailed || list[0].Error != "panic: broken" ||
			list[1].Result != record.RunSucceeded || list[0].Token <= list[1].Token ||
			list[1].Tick != began.Add(2*time.Minute).UnixMilli() {
			t.Errorf("%+v, %v", list, err)
		}
		<-c.Stop().Done()
		p.stop()
	})
}

// A process whose clock was days ahead for a moment has noted a tick that is yet to come. Others run the next one, and
// say once what they found.
func TestOnceAfterAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		db := memory.New()
		lock := record.Lock{Key: record.NewKey(jobs.DefaultGroup, "report"), Rev: 1, Token: 1}
		lock.WriterID = driver.WriterID{Session: "s", Seq: 1}
		lock.Status.LastTick = time.Now().Add(48 * time.Hour).UnixMilli()
		if _, err := db.Apply(t.Context(), driver.Change{Doc: lock.Doc()}); err != nil {
			t.Fatal(err)
		}
		var lines []string
		p := newProcess(t, db, "a", func(*jobs.Manager) {}, func(c *jobs.Config) {
			c.Logger = funcr.New(func(_, args string) {
				if strings.Contains(args, "ahead") {
					lines = append(lines, args)
				}
			}, funcr.Options{})
		})
		c, n := cron.New(cron.WithLocation(time.UTC)), 0
		if _, err := p.AddJob(c, "*/2 * * * *", "report", cron.FuncJob(func() { n++ })); err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(7 * time.Minute)
		<-c.Stop().Done()
		p.stop()
		if n != 3 || len(lines) != 1 {
			t.Errorf("%d runs within 7 minutes, want 3; lines: %q", n, lines)
		}
	})
}
