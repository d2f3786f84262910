package worker

import (
	"maps"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/pkg/elect"
)

func TestUsageMeter(t *testing.T) {
	var m usageMeter
	take := func(at time.Duration, commands ...wire.Usage) map[elect.Key]float64 {
		now := elect.Instant{Mono: time.Hour + at, Boot: 2*time.Hour + at}
		return m.take(wire.Used{At: now, Commands: commands})
	}
	used := func(id uint64, key elect.Key, cpu time.Duration) wire.Usage {
		return wire.Usage{ID: id, Key: key, CPU: cpu}
	}
	const s = time.Second
	for _, step := range []struct {
		what     string
		at       time.Duration
		commands []wire.Usage
		want     map[elect.Key]float64
	}{
		{"at first", 0, []wire.Usage{used(1, "g/a", 7*s), used(2, "g/b", s)}, nil},
		{
			"both, after two seconds", 2 * s,
			[]wire.Usage{used(1, "g/a", 10*s), used(2, "g/b", s)},
			map[elect.Key]float64{"g/a": 1.5, "g/b": 0},
		},
		{"too soon", 2*s + 50*time.Millisecond, []wire.Usage{used(1, "g/a", 11*s)}, nil},
		{
			"an orphan of one has ended, the other has started again", 4 * s,
			[]wire.Usage{used(1, "g/a", 9*s), used(3, "g/b", s)},
			map[elect.Key]float64{"g/a": 0},
		},
		{
			"next to nothing", 5 * s,
			[]wire.Usage{used(1, "g/a", 9*s+4*time.Millisecond), used(3, "g/b", s+s/8)},
			map[elect.Key]float64{"g/a": 0, "g/b": 0.13},
		},
	} {
		if got := take(step.at, step.commands...); !maps.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
}
