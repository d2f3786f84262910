package view

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/test/viewtest"
)

// What a clock has dated that was a year ahead is not shown as if it were to come.
func TestMarksOfAClockThatWasFarAhead(t *testing.T) {
	v := viewtest.Cluster()
	v.Now = time.Unix(1_000_000, 0).UnixMilli()
	ahead := v.Now + (365 * 24 * time.Hour).Milliseconds()
	v.Sessions[1].Member.Opened = ahead
	for _, i := range (instanceIndex{view: v}).list(time.UnixMilli(v.Now)) {
		if i.StartedAt.After(time.UnixMilli(v.Now)) {
			t.Errorf("%s was started at %v", i.Name, i.StartedAt)
		}
	}
	hold := protocol.MutexHold{UntilMs: ahead, ForMs: 5000, Token: 7}
	l := holders{}.lock("locks/a", protocol.MutexDoc{Rev: 8, Limit: 1, Hold: hold}, v.Now)
	if l.KeptUntil.UnixMilli() != v.Now+hold.ForMs {
		t.Errorf("it is kept until %v, and whoever asks sets that right", l.KeptUntil)
	}
	if age := ageOf(record.Session{Clock: ahead}, v.Now); age != 0 {
		t.Errorf("a heartbeat of %v ago", age)
	}
}
