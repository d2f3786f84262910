package sqlstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// Numbers that are not there are asked for until they turn up or are too old, and each line counts once.
func TestGapsOfTheLog(t *testing.T) {
	var p sqlstore.Place
	p.MoveTo(10)
	start := time.Unix(1000, 0)
	for _, step := range []struct {
		number int64
		after  time.Duration
		fresh  bool
		asked  []int64
	}{
		{number: 11, fresh: true},
		{number: 11}, // read before
		{number: 15, fresh: true, asked: []int64{12, 13, 14}},
		{number: 13, fresh: true, asked: []int64{12, 14}},
		{number: 13, asked: []int64{12, 14}},
		{number: 18, after: 30 * time.Second, fresh: true, asked: []int64{12, 14, 16, 17}},
		{number: 12, after: 59 * time.Second, fresh: true, asked: []int64{14, 16, 17}},
		{number: 19, after: 61 * time.Second, fresh: true, asked: []int64{16, 17}},
		{number: 14, after: 61 * time.Second, asked: []int64{16, 17}}, // too late
		{number: 20, after: 91 * time.Second, fresh: true},
	} {
		now := start.Add(step.after)
		if fresh := p.Read(step.number, now); fresh != step.fresh {
			t.Errorf("line %d: fresh %t, want %t", step.number, fresh, step.fresh)
		}
		if asked := p.Asked(now); !slices.Equal(asked, step.asked) {
			t.Errorf("after line %d: asked for %v, want %v", step.number, asked, step.asked)
		}
	}
}

// Everything is to be looked at where lines may be gone that were not read.
func TestLostLinesOfTheLog(t *testing.T) {
	for name, tt := range map[string]struct {
		oldest, newest, number int64
		want                   bool
	}{
		"all there":             {1, 20, 12, false},
		"trimmed, all read":     {12, 20, 11, false},
		"trimmed unread":        {14, 20, 12, true},
		"trimmed up to a gap":   {11, 20, 12, false},
		"trimmed within a gap":  {12, 20, 12, true},
		"older than a backup":   {1, 9, 12, true},
		"more gaps than we ask": {1, 9000, 9000, true},
	} {
		var p sqlstore.Place
		p.MoveTo(10)
		now := time.Unix(1000, 0)
		p.Read(tt.number, now)
		if lost := p.Lost(tt.oldest, tt.newest, p.Asked(now)); lost != tt.want {
			t.Errorf("%s: lost %t, want %t", name, lost, tt.want)
		}
	}
}

// A line below all that were there tells that the numbers were set back.
func TestNumbersThatGoBack(t *testing.T) {
	var p sqlstore.Place
	for i, step := range []struct {
		oldest int64
		want   bool
	}{{oldest: 4000}, {oldest: 4000}, {oldest: 4100}, {oldest: 1, want: true}, {oldest: 1}, {}, {oldest: 4101}} {
		if back := p.GoesBack(step.oldest); back != step.want {
			t.Errorf("step %d, oldest line %d: %t, want %t", i, step.oldest, back, step.want)
		}
	}
}

// Names of tables fit, and differ, also where the database allows short ones only.
func TestPrefix(t *testing.T) {
	long := "A-cluster-with-a-name-that-is-as-long-as-the-names-of-clusters-c"
	for _, tt := range []struct {
		cluster string
		limit   int
		want    string
	}{
		{"default", 63, "default_"},
		{"Blue.1", 0, "+Blue.1_"},
		{long, 0, "+" + long + "_"},
	} {
		if got := sqlstore.Prefix(tt.cluster, tt.limit); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.cluster, got, tt.want)
		}
	}
	one, other := sqlstore.Prefix(long, 63), sqlstore.Prefix(long+"d", 63)
	if one == other || len(one)+len("notifications") > 63 {
		t.Errorf("prefixes %s and %s: want two that fit", one, other)
	}
}
