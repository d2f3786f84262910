package engine

import (
	"reflect"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// mutexRig is a table at a time that a test sets, beside a mutex in a store.
type mutexRig struct {
	*Mutexes
	t    *testing.T
	now  time.Duration
	have driver.Doc // Rev 0: absent
	got  []MutexResult
	want []string
}

func newMutexRig(t *testing.T) *mutexRig {
	t.Helper()
	r := &mutexRig{Mutexes: newMutexes(&Effects{}, testParams(t)), t: t}
	r.begin(&record.WriterIDs{Session: "me"}, r.moment())
	return r
}

func (r *mutexRig) moment() protocol.Moment {
	m := testMoment(r.now)
	m.Valid = true
	return m
}

// doc is the mutex as the store has it.
func (r *mutexRig) doc() protocol.MutexDoc {
	if r.have.Rev == 0 {
		return protocol.MutexDoc{}
	}
	d, err := record.MutexFrom(r.have)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// put is a write of somebody else.
func (r *mutexRig) put(d protocol.MutexDoc) {
	r.have = record.MutexDoc("locks/m", d, driver.WriterID{Session: "other", Seq: d.Rev}, 0)
}

// sent are the changes that are to be sent now, and the reads.
func (r *mutexRig) sent() (changes []driver.Change, reads []string) {
	ready := takeFrom(r.out)
	r.got = append(r.got, of[MutexResult](ready)...)
	r.want = append(r.want, keys(ready, func(x wantSession) string { return x.session })...)
	ids := keys(ready, func(x mutexWrite) string { return x.id })
	return r.prepare(ids, r.moment()), keys(ready, func(x mutexRead) string { return x.id })
}

// serve answers all that is asked for until nothing is. It says how many writes and reads that took.
func (r *mutexRig) serve() (writes, reads int) {
	for {
		changes, ids := r.sent()
		if len(changes)+len(ids) == 0 {
			return writes, reads
		}
		for range ids {
			reads++
			r.found(mutexFound{ID: "locks/m", Doc: r.doc(), Mark: 5}, r.moment())
		}
		for _, c := range changes {
			writes++
			r.apply(c)
		}
	}
}

func (r *mutexRig) apply(c driver.Change) {
	if r.have.Rev == c.IfRev {
		r.have = c.Doc
		r.answered(c, driver.Outcome{Status: driver.Applied}, nil, r.moment())
		return
	}
	found := r.doc()
	r.answered(c, driver.Outcome{Status: driver.Refused}, &found, r.moment())
}

// result is the only one since the last call.
func (r *mutexRig) result(kind protocol.MutexActionKind) MutexResult {
	r.t.Helper()
	if len(r.got) != 1 || r.got[0].Kind != kind {
		r.t.Fatalf("results %+v, want one of kind %d", r.got, kind)
	}
	one := r.got[0]
	r.got = nil
	return one
}

func oneHolder() protocol.MutexRequest { return protocol.MutexRequest{Limit: 1} }

// The first call reads, since the mutex may be anything; the next one soon after does not.
func TestAMutexIsKeptForTheNextCall(t *testing.T) {
	r := newMutexRig(t)
	r.Ask("locks/m", "c1", oneHolder(), r.moment())
	if writes, reads := r.serve(); writes != 1 || reads != 1 {
		t.Errorf("%d writes and %d reads, want one each", writes, reads)
	}
	granted := r.result(protocol.MutexGranted)
	if granted.Token != r.have.Rev || granted.Token <= 5 || granted.Claim != "c1" || r.All.used != 1 {
		t.Errorf("%+v of revision %d; %d in use", granted, r.have.Rev, r.All.used)
	}
	r.Release("locks/m", "c1", 0, r.moment())
	r.serve()
	r.result(protocol.MutexDone)
	if r.All.used != 0 {
		t.Errorf("%d are in use", r.All.used)
	}
	r.Ask("locks/m", "c2", oneHolder(), r.moment())
	if writes, reads := r.serve(); writes != 1 || reads != 0 {
		t.Errorf("%d writes and %d reads, want one write alone", writes, reads)
	}
	r.Release("locks/m", "c2", 0, r.moment())
	r.serve()
	r.now += 2 * keepIdleMutex
	r.tick(r.moment())
	if len(r.All.byID)+len(r.timers.timed) != 0 {
		t.Errorf("%d mutexes are kept", len(r.All.byID))
	}
}

// A write whose answer is lost is repeated as it is, under the same writer ID. Only such a write is known again.
func TestAnUnansweredWriteIsRepeated(t *testing.T) {
	r := newMutexRig(t)
	r.Ask("locks/m", "c1", oneHolder(), r.moment())
	_, _ = r.sent()
	r.found(mutexFound{ID: "locks/m"}, r.moment())
	first, _ := r.sent()
	if len(first) != 1 || first[0].Claim == 0 {
		t.Fatalf("%+v: want a claim", first)
	}
	r.answered(first[0], driver.Outcome{}, nil, r.moment())
	if again, _ := r.sent(); len(again) != 0 {
		t.Errorf("sent at once: %+v", again)
	}
	if d, ok := r.timers.wait(r.moment().Now); !ok || d > r.p.Retry {
		t.Errorf("it waits %v, %t", d, ok)
	}
	r.now += r.p.Retry
	r.tick(r.moment())
	again, _ := r.sent()
	if !reflect.DeepEqual(again, first) {
		t.Errorf("repeated as\n%+v, was\n%+v", again, first)
	}
}

// A ticket of this session that no call waits on is taken out as soon as the mutex is reserved for it. Mutexes that are
// reserved for others are none of its business.
func TestAReservationWithoutACallIsDeclined(t *testing.T) {
	for name, shown := range map[string]bool{"shown": true, "named only": false} {
		t.Run(name, func(t *testing.T) {
			r := newMutexRig(t)
			d := protocol.MutexDoc{
				Rev: 9, Limit: 1, Queue: []protocol.MutexTicket{{Session: "me", Claim: "gone"}},
				Next: "me",
			}
			r.put(d)
			notice := &d
			if !shown {
				notice = nil
			}
			r.notified("locks/m", notice, r.moment())
			r.serve()
			if left := r.doc(); len(left.Queue) != 0 || left.Next != "" || r.All.used != 0 {
				t.Errorf("left %+v; %d in use", left, r.All.used)
			}
			d.Next = "other"
			r.notified("locks/n", &d, r.moment())
			if _, reads := r.sent(); len(reads) != 0 {
				t.Errorf("read %v", reads)
			}
		})
	}
}

// Where the store notifies, a waiter hardly asks. Where it does not, it asks at growing intervals.
func TestWaitersLook(t *testing.T) {
	for name, tt := range map[string]struct {
		watching    bool
		least, most int
	}{"notified": {true, 10, 15}, "polling": {false, 25, 40}} {
		t.Run(name, func(t *testing.T) {
			r := newMutexRig(t)
			r.watching(tt.watching, r.moment())
			r.put(protocol.MutexDoc{
				Rev: 9, Limit: 1, Holders: []protocol.MutexHolder{{Session: "other", Claim: "o", Token: 9}},
				Exclusive: 9,
			})
			r.Ask("locks/m", "c1", oneHolder(), r.moment())
			r.serve()
			if len(r.want) != 1 || r.want[0] != "other" {
				t.Errorf("sessions %v, want the holder's", r.want)
			}
			looks, end := 0, r.now+25*time.Second
			for r.now < end {
				d, ok := r.timers.wait(r.moment().Now)
				if !ok {
					t.Fatal("nothing would ever happen")
				}
				r.now += max(d, time.Millisecond)
				r.tick(r.moment())
				_, reads := r.serve()
				looks += reads
			}
			if looks < tt.least || looks > tt.most {
				t.Errorf("%d looks within 25 s, want %d to %d", looks, tt.least, tt.most)
			}
			r.seen("other", true, r.moment())
			r.serve()
			r.result(protocol.MutexGranted)
		})
	}
}

// Close gives up what waits at once. What is held it ends, and keeps until its release, or End.
func TestCloseGivesUpAndReleases(t *testing.T) {
	r := newMutexRig(t)
	r.Ask("locks/m", "held", oneHolder(), r.moment())
	r.serve()
	r.Ask("locks/m", "waits", oneHolder(), r.moment())
	r.serve()
	r.got = nil
	r.close(r.moment())
	r.serve()
	if left := r.doc(); len(left.Holders) != 1 || len(left.Queue) != 0 {
		t.Errorf("after Close: %+v", left)
	}
	r.end(r.moment())
	r.serve()
	kinds := map[string]protocol.MutexActionKind{"held": protocol.MutexLost, "waits": protocol.MutexRefused}
	for _, got := range r.got {
		if got.Kind != protocol.MutexDone && (got.Kind != kinds[got.Claim] || !got.Closed) {
			t.Errorf("%+v", got)
		}
	}
	if left := r.doc(); len(left.Holders)+len(left.Queue) != 0 || r.All.used != 0 {
		t.Errorf("left %+v; %d in use", left, r.All.used)
	}
}

// What is held is compared once the store follows another lineage: until then no heartbeat counts.
func TestDoubt(t *testing.T) {
	r := newMutexRig(t)
	r.Ask("locks/m", "c1", oneHolder(), r.moment())
	r.serve()
	r.result(protocol.MutexGranted)
	r.lineageChanged(r.moment())
	if !r.All.verifying() {
		t.Error("nothing is verified")
	}
	r.put(protocol.MutexDoc{Rev: 3, Limit: 1}) // the claim is forgotten
	r.serve()
	if lost := r.result(protocol.MutexLost); lost.Reason != protocol.HolderGone || r.All.verifying() {
		t.Errorf("%+v; verifying %t", lost, r.All.verifying())
	}
}

// While the store is away a write is repeated at its interval, also when it is time to look. A store that fails at once
// would be asked without a pause.
func TestRepeatsKeepTheirInterval(t *testing.T) {
	r := newMutexRig(t)
	r.Ask("locks/m", "c1", oneHolder(), r.moment())
	_, _ = r.sent()
	r.found(mutexFound{ID: "locks/m"}, r.moment())
	repeats, end := 0, r.now+10*time.Second
	for r.now < end {
		changes, _ := r.sent()
		for _, c := range changes {
			repeats++
			r.answered(c, driver.Outcome{}, nil, r.moment())
		}
		d, ok := r.timers.wait(r.moment().Now)
		if !ok || d == 0 {
			t.Fatalf("after %v it waits %v, %t", r.now, d, ok)
		}
		r.now += d
		r.tick(r.moment())
	}
	if most := int(10*time.Second/r.p.Retry) + 1; repeats < most/2 || repeats > most {
		t.Errorf("sent %d times within 10 s, want every %v", repeats, r.p.Retry)
	}
}
