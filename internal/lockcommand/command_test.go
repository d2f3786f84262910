package lockcommand

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// A signal to the group is not passed on, whichever process gets it first. One to the guard alone is.
func TestRelay(t *testing.T) {
	const term, quit = syscall.SIGTERM, syscall.SIGINT
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	for name, tt := range map[string]struct {
		shared bool
		do     func(r *relay)
		want   []syscall.Signal // a second later
	}{
		"alone": {false, func(r *relay) { r.guardGot(term, at(0)) }, []syscall.Signal{term}},
		"alone, twice": {
			false, func(r *relay) { r.guardGot(term, at(0)); r.guardGot(term, at(1)) }, []syscall.Signal{term, term},
		},
		"alone, own":      {false, func(r *relay) { r.ownGot(term, at(0)); r.guardGot(term, at(1)) }, []syscall.Signal{term}},
		"guard":           {true, func(r *relay) { r.guardGot(term, at(0)) }, []syscall.Signal{term}},
		"group":           {true, func(r *relay) { r.guardGot(term, at(0)); r.ownGot(term, at(9)) }, nil},
		"group, reversed": {true, func(r *relay) { r.ownGot(term, at(0)); r.guardGot(term, at(9)) }, nil},
		"another signal":  {true, func(r *relay) { r.ownGot(quit, at(0)); r.guardGot(term, at(9)) }, []syscall.Signal{term}},
		"long ago":        {true, func(r *relay) { r.ownGot(term, at(0)); r.guardGot(term, at(501)) }, []syscall.Signal{term}},
		"this alone":      {true, func(r *relay) { r.ownGot(term, at(0)) }, nil},
	} {
		r := relay{shared: tt.shared}
		tt.do(&r)
		if got := r.due(at(1500)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	r := relay{shared: true}
	r.guardGot(term, at(0))
	if left, ok := r.next(at(50)); !ok || left != groupDelay-50*time.Millisecond || len(r.due(at(50))) > 0 {
		t.Errorf("passed on too early: %v, %t", left, ok)
	}
}
