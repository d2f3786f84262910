package linearizability

import "testing"

// counted is a test that notes whether it failed.
type counted struct {
	testing.TB
	failed int
}

func (c *counted) Error(...any) { c.failed++ }
func (c *counted) Helper()      {}

// A recording that shows too little is wrong, and one that shows enough is not.
func TestBadRecordingShowsTooLittle(t *testing.T) {
	store, way, none := &injected{}, &injected{}, &injected{}
	store.add("server dies")
	for _, kind := range []string{"request lost", "answer lost", "late", "delayed"} {
		way.add(kind)
	}
	for _, tt := range []struct {
		seconds       int
		histories     int64
		store, way    *injected
		wantsFailures int
	}{
		{full, 1000, store, way, 0},
		{full, 999, store, way, 1},
		{10 * full, 1000, store, way, 0},
		{long, 83, store, way, 0},
		{long, 82, store, way, 1},
		{long, 1000, none, way, 1},
		{long, 1000, store, none, 4},
		{8, 50, store, none, 0},
		{8, 49, store, way, 1},
	} {
		c := &counted{TB: t}
		if enough(c, tt.seconds, tt.histories, tt.store, tt.way); c.failed != tt.wantsFailures {
			t.Errorf("%+v: %d failures, want %d", tt, c.failed, tt.wantsFailures)
		}
	}
}
