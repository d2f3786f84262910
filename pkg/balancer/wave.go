package balancer

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/cluster"
)

// Wave is how far a drain has come. The zero Wave is a drain that has not begun.
type Wave struct {
	Size int       // keys released at once
	At   time.Time // when the last of them were
}

const (
	wavePause = 60 * time.Millisecond
	waveLeast = 4
	waves     = 10
)

// pace spreads a drain over a moment: four keys at once, or a tenth of all, each 60 ms. It does not wait for those
// before to end. All at once they would wait for each other on their way through the store, and each for longer.
func (w Wave) pace(all []cluster.HandOver, now time.Time) (Wave, []cluster.HandOver, time.Duration) {
	if len(all) == 0 {
		return w, nil, 0
	}
	if w.Size == 0 {
		w.Size = max(waveLeast, (len(all)+waves-1)/waves)
	}
	if rest := wavePause - now.Sub(w.At); rest > 0 {
		return w, nil, rest
	}
	w.At = now
	if len(all) > w.Size {
		return w, all[:w.Size], wavePause
	}
	return w, all, 0
}
