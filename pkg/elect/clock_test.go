//go:build linux || darwin

package elect_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Readings of several clocks can be compared, as those of a guard and its worker are.
func TestSystemClocksAgree(t *testing.T) {
	first := elect.SystemClock()
	time.Sleep(20 * time.Millisecond)
	second := elect.SystemClock()
	before := first.Now()
	if got := second.Now(); got.Mono < before.Mono || got.Boot < before.Boot {
		t.Errorf("the second clock reads %+v after the first read %+v", got, before)
	}
}
