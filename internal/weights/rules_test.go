package weights

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/record"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

func behind(messages, seconds int64) record.Lag {
	return record.Lag{Known: true, Messages: messages, Seconds: seconds}
}

func TestScores(t *testing.T) {
	for _, test := range []struct {
		lag  record.Lag
		want float64
	}{
		{record.Lag{}, 0},
		{record.Lag{Messages: 5000, Seconds: 50}, 0}, // not known
		{behind(0, 0), 0},
		{behind(-1, -1), 0},
		{behind(100, 7), 0},
		{behind(1000, 0), 1},
		{behind(10_000, -1), 2},
		{behind(-1, 30), 1},
		{behind(-1, 120), 2},
		{behind(1000, 480), 3},
		{behind(100_000, 30), 3},
		{behind(1<<62, 1<<40), MaxLevel + 1},
	} {
		if got := score(test.lag); got < test.want-0.001 || got > test.want+0.001 {
			t.Errorf("%+v: %f, want %f", test.lag, got, test.want)
		}
	}
	for level, want := range map[int]int{-1: 1, 0: 1, 1: 2, 2: 4, 3: 8, 9: 8} {
		if got := Factor(level); got != want {
			t.Errorf("level %d weighs %d times, want %d", level, got, want)
		}
	}
}

// began is when these tests begin, by the store's clock.
const began = int64(1_700_000_000_000)

// script feeds rules with the lag of one task, and publishes what they say.
type script struct {
	rules     Rules
	now, at   int64
	since     int64 // when the task changed hands
	published []Entry
	scores    Scores
	seen      func() record.Lag
}

// during looks for d, and says which levels were published after how much time, as "1@30s".
func (s *script) during(d time.Duration) (steps []string) {
	start := s.now
	for ; s.now < start+d.Milliseconds(); s.now += s.rules.Look.Milliseconds() {
		s.scores = s.rules.Score(s.scores, s.published, map[string]Seen{"a": {Lag: s.seen(), Since: s.since}}, s.now)
		if next, changed := s.rules.Next(s.published, s.at, s.scores, s.now); changed {
			s.published, s.at = next, s.now
			steps = append(steps, fmt.Sprintf("%d@%v", Levels(next)["a"], millis(s.now-start)))
		}
	}
	return steps
}

func TestATaskRisesAndFalls(t *testing.T) {
	lag := behind(0, 0)
	s := &script{rules: Lag.Rules(), now: began, seen: func() record.Lag { return lag }}
	check := func(what string, now record.Lag, d time.Duration, want ...string) {
		t.Helper()
		lag = now
		if got := s.during(d); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("nothing", behind(0, 0), time.Hour)
	check("a burst", behind(1_000_000, 600), 10*time.Second)
	check("it is over", behind(0, 0), time.Hour)
	check("behind by little", behind(2000, 0), 3*time.Minute, "1@1m25s")
	check("it does not help", behind(2000, 0), 10*time.Minute, "2@3m25s", "3@8m25s")
	check("quiet, and the level stays", behind(200, 0), 25*time.Minute)
	check("then falls", behind(200, 0), 90*time.Minute, "2@3m25s", "1@33m25s", "0@1h3m25s")
	check("hot again soon: the wait doubles", behind(1_000_000, 0), 5*time.Minute, "1@10s", "2@40s", "3@1m15s")
	check("which is longer", behind(0, 0), 2*time.Hour, "2@56m15s", "1@1h56m15s")
}

func TestWhatHoldsALevel(t *testing.T) {
	s := &script{rules: Lag.Rules(), now: began, since: began, seen: func() record.Lag { return behind(20_000, 0) }}
	if got := s.during(5 * time.Minute); got != nil {
		t.Errorf("it changed hands and was published: %v", got)
	}
	if got := s.during(time.Minute); len(got) == 0 {
		t.Error("the hold does not end")
	}
	// Another follower begins at what is published, and not at nothing.
	level := Levels(s.published)["a"]
	s.scores = Scores{}
	if got := s.during(s.rules.Look); got != nil || Levels(s.published)["a"] != level ||
		s.scores.Value["a"] != float64(level) {
		t.Errorf("after a change of who follows: %v, %+v", got, s.scores)
	}
	// What is not known counts as no lag, and what is no task any more has no level at once.
	s.seen = func() record.Lag { return record.Lag{} }
	if got := s.during(2 * time.Hour); len(got) == 0 || Levels(s.published)["a"] != 0 {
		t.Errorf("a lag that is not known keeps the level: %v", got)
	}
	gone := []Entry{{Name: "a", Level: 2, Since: s.now}, {Name: "b", Level: 1, Since: s.now}}
	next, changed := s.rules.Next(gone, 0, Scores{At: s.now, Value: map[string]float64{"b": 1}}, s.now)
	if !changed || len(next) != 1 || next[0].Name != "b" {
		t.Errorf("%v, %v", next, changed)
	}
}

// A clock that is set back by a year holds no level for a year, and no publication.
func TestTheClockIsSetBack(t *testing.T) {
	r, year := Lag.Rules(), (365 * 24 * time.Hour).Milliseconds()
	later := []Entry{{Name: "a", Level: 1, Since: began + year, Wait: r.Wait.Milliseconds()}}
	quiet := Scores{At: began, Value: map[string]float64{"a": 0}}
	next, changed := r.Next(later, began+year, quiet, began)
	if !changed || next[0].Since != began {
		t.Fatalf("%+v, %v", next, changed)
	}
	if next, changed = r.Next(next, began, quiet, began+r.Wait.Milliseconds()); !changed || Levels(next)["a"] != 0 {
		t.Errorf("%+v, %v", next, changed)
	}
}

// Whatever the lags are: levels have bounds, entries are in order, publications keep their distance, and what was
// published stays as it is.
func TestPropertiesOfAnyLag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Lag.Rules()
		r.Smooth = time.Duration(rapid.IntRange(1, 60).Draw(t, "smooth")) * time.Second
		r.Wait = time.Duration(rapid.IntRange(0, 600).Draw(t, "wait")) * time.Second
		var published []Entry
		var scores Scores
		at, now := int64(0), began
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now += rapid.Int64Range(1, 40_000).Draw(t, "ms")
			seen := map[string]Seen{}
			for _, name := range []string{"a", "b", "c"} {
				if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					continue
				}
				messages, seconds := rapid.Int64Range(-1, 1<<20), rapid.Int64Range(-1, 1000)
				seen[name] = Seen{
					Lag:   behind(messages.Draw(t, "messages"), seconds.Draw(t, "seconds")),
					Since: rapid.Int64Range(0, now).Draw(t, "since"),
				}
			}
			scores = r.Score(scores, published, seen, now)
			was := slices.Clone(published)
			next, changed := r.Next(published, at, scores, now)
			if !slices.Equal(was, published) {
				t.Fatalf("what was published has changed: %v, %v", was, published)
			}
			if !changed {
				continue
			}
			if at != 0 && millis(now-at) < r.Every {
				t.Fatalf("published after %v", millis(now-at))
			}
			checkEntries(t, r, next, now)
			if maps.Equal(Levels(published), Levels(next)) {
				t.Fatalf("no level differs: %v, %v", published, next)
			}
			published, at = next, now
		}
	})
}

func checkEntries(t *rapid.T, r Rules, entries []Entry, now int64) {
	for i, e := range entries {
		if e.Level < 0 || e.Level > MaxLevel || e.Since > now || e.Since < began ||
			e.Wait < r.Wait.Milliseconds() || e.Wait > r.MaxWait.Milliseconds() {
			t.Fatalf("entry %+v", e)
		}
		if i > 0 && entries[i-1].Name >= e.Name {
			t.Fatalf("not in order: %v", entries)
		}
	}
}

// A constant lag makes a task rise at most to the highest level, and then nothing happens any more. Noise of up to
// three times as much or as little makes no level fall.
func TestPropertiesOfAConstantLag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1<<20).Draw(t, "messages")
		noisy := rapid.Bool().Draw(t, "noisy")
		s := &script{rules: Lag.Rules(), now: began}
		s.seen = func() record.Lag {
			if noisy {
				return behind(base*rapid.Int64Range(10, 90).Draw(t, "noise")/30, 0)
			}
			return behind(base, 0)
		}
		steps := s.during(time.Hour)
		level := Levels(s.published)["a"]
		if len(steps) > MaxLevel || level < min(len(steps), MaxLevel) {
			t.Fatalf("%v", steps)
		}
		if !noisy {
			// From 990 to 1009 the smoothing decides.
			if base >= 1010 && level != MaxLevel || base < 990 && level > 0 {
				t.Fatalf("a lag of %d ends at level %d", base, level)
			}
			if more := s.during(5 * time.Hour); more != nil && base > 320 {
				t.Fatalf("then %v", more)
			}
		}
	})
}

// A task that has changed hands a year ahead of now, by the clock of then, is measured.
func TestMarksOfAClockThatWasFarAhead(t *testing.T) {
	now := time.Unix(1_000_000, 0).UnixMilli()
	for _, of := range []Measure{Lag, Load} {
		if r := of.Rules(); r.held(Seen{Since: now + (365 * 24 * time.Hour).Milliseconds()}, true, now) {
			t.Errorf("%v: what is measured does not count for a year", of)
		}
	}
}
