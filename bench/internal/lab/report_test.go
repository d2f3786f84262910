//go:build linux

package lab

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMayWrite(t *testing.T) {
	for _, tt := range []struct {
		effort Effort
		load   string
		says   []string // none: it may
	}{
		{Effort{}, "0.00", nil},
		{Effort{}, "0.49", nil},
		{Effort{}, "0.50", []string{"load 0.50", "less than 0.5"}},
		{Effort{}, "4.66", []string{"load 4.66", "less than 0.5"}},
		{Effort{}, "?", []string{"load ?"}},
		{Effort{Quick: true}, "0.00", []string{"-quick"}},
		{Effort{Rounds: 100}, "0.00", nil},
	} {
		err := tt.effort.MayWrite(tt.load)
		if (err != nil) != (len(tt.says) > 0) {
			t.Errorf("%+v: %v", tt, err)
		}
		for _, words := range tt.says {
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("%+v: %v, want %q", tt, err, words)
			}
		}
	}
}

func TestQuietSaysWhenAndHowQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuiet()
		time.Sleep(3 * time.Minute)
		if stood := q.Stood(); stood != 0 {
			t.Errorf("stood still for %v of virtual time", stood)
		}
		q.Close()
		q.Load = "0.12"
		time.Sleep(time.Minute) // so that no goroutine wakes up meanwhile
		for _, want := range []string{
			"run of 4 min on 1 January 2000,", "load 0.12 at the start", "machine\nstood still for 25.0 % of the time.",
		} {
			if got := q.Measured(); !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}
