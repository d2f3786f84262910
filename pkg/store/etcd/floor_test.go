package etcd

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// What was edited so that it is no floor counts as none, whatever numbers it holds.
func TestEditedFloorIsNone(t *testing.T) {
	for _, value := range []string{"", "7", `{"base":-1}`, `{"base":9000000000000000000}`, `{"base":5,"time":"now"}`} {
		f := &floors{}
		if got := f.at([]*mvccpb.KeyValue{{Value: []byte(value)}}, 3); got != 3 {
			t.Errorf("%q: floor %d, want etcd's revision alone", value, got)
		}
	}
}

// However often a floor is written, the floors of one hour lead to the first one of the hour before.
func TestFloorsLeadFromHourToHour(t *testing.T) {
	hour := floorEvery.Milliseconds()
	f := floor{}.next(0, hour)
	for _, tt := range []struct {
		mod, now int64
		want     floor
	}{
		{10, hour + 1, floor{Time: hour, First: 10}},
		{11, 2*hour - 1, floor{Time: hour, First: 10}},
		{12, 2 * hour, floor{Time: 2 * hour, Prev: 10}},
		{13, 2*hour + 1, floor{Time: 2 * hour, First: 13, Prev: 10}},
		{14, 9 * hour, floor{Time: 9 * hour, Prev: 13}},
		{15, 10 * hour, floor{Time: 10 * hour, Prev: 15}},
	} {
		if f = f.next(tt.mod, tt.now); f != tt.want {
			t.Errorf("at %v: got %+v, want %+v", time.Duration(tt.now)*time.Millisecond, f, tt.want)
		}
	}
}
