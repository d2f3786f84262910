package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
)

var began = time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

// good is a record in which r1 crashes with one message unacknowledged, r2 hands over in order, and the broker
// restarts.
func good() judge.Record {
	r := judge.Record{
		InFlight: 1,
		Crashes:  []judge.Crash{{Instance: "r1", At: at(20)}},
		Breaks:   []judge.Break{{From: at(50), To: at(60)}},
	}
	for seq := 1; seq <= 8; seq++ {
		r.Sent = append(r.Sent, judge.Sent{Lane: 1, Seq: seq, Confirmed: true})
	}
	r.Sent = append(r.Sent, judge.Sent{Lane: 1, Seq: 9}) // the broker was down, and does not have it
	for _, d := range []struct {
		instance string
		token    int64
		seq, at  int
	}{
		{"r1", 1, 1, 1},
		{"r1", 1, 2, 19},
		{"r2", 2, 2, 25},
		{"r2", 2, 3, 30},
		{"r3", 3, 4, 40},
		{"r3", 3, 5, 49},
		{"r3", 3, 5, 62},
		{"r3", 3, 6, 70},
		{"r3", 3, 7, 71},
		{"r3", 3, 8, 72},
	} {
		r.Deliveries = append(r.Deliveries, judge.Delivery{
			Task: "g/t", Instance: d.instance, Token: d.token, Lane: 1, Seq: d.seq, At: at(d.at),
		})
	}
	return r
}

func TestWhatMayHappenIsNotBlamed(t *testing.T) {
	v := judge.Judge(good())
	if problems := v.Problems(); len(problems) > 0 {
		t.Error(strings.Join(problems, "\n"))
	}
	want := judge.Figures{Sent: 9, Confirmed: 8, Delivered: 8, Again: 2, Allowed: 2, Moves: 2}
	if v.Figures != want {
		t.Errorf("%+v, want %+v", v.Figures, want)
	}
}

// Each change makes the good record a bad one, and the judge names it.
func TestWhatMayNotHappenIsBlamed(t *testing.T) {
	repeat := func(r *judge.Record, i int, change func(d *judge.Delivery)) {
		d := r.Deliveries[i]
		change(&d)
		r.Deliveries = append(r.Deliveries, d)
	}
	for want, spoil := range map[string]func(r *judge.Record){
		"not delivered (1): 8 of lane 1": func(r *judge.Record) { r.Deliveries = r.Deliveries[:9] },
		"not delivered (8): ":            func(r *judge.Record) { r.Deliveries = nil },
		"never sent (1): 10 of lane 1": func(r *judge.Record) {
			repeat(r, 9, func(d *judge.Delivery) { d.Seq = 10 })
		},
		"out of order (1): 7 of lane 1 first came after 8": func(r *judge.Record) {
			r.Deliveries[8].Seq, r.Deliveries[9].Seq = 8, 7
		},
		"token fell (1): g/t: 2 of r2 after 3 of r3": func(r *judge.Record) {
			r.Deliveries[9].Token, r.Deliveries[9].Instance = 2, "r2"
		},
		"delivered again without a fault (1): 8 of lane 1": func(r *judge.Record) {
			repeat(r, 9, func(d *judge.Delivery) { d.At = at(80) })
		},
		"delivered again without a fault (1): 3 of lane 1": func(r *judge.Record) { // at an orderly move
			d := r.Deliveries[3]
			d.Instance, d.Token, d.At = "r3", 3, at(35)
			r.Deliveries = append(r.Deliveries[:4:4], append([]judge.Delivery{d}, r.Deliveries[4:]...)...)
		},
		"delivered again without a fault (1): 2 of lane 1": func(r *judge.Record) { r.Crashes = nil },
		"delivered again without a fault (1): 5 of lane 1": func(r *judge.Record) { r.Breaks = nil },
		"delivered again too often (1): 2 messages of g/t for one fault, with 1 in flight": func(r *judge.Record) {
			d := r.Deliveries[0]
			d.Instance, d.Token, d.At = "r2", 2, at(24)
			r.Deliveries = append(r.Deliveries[:2:2], append([]judge.Delivery{d}, r.Deliveries[2:]...)...)
		},
	} {
		r := good()
		spoil(&r)
		if problems := strings.Join(judge.Judge(r).Problems(), "\n"); !strings.Contains(problems, want) {
			t.Errorf("the judge says %q, want %q", problems, want)
		}
	}
}

func TestOnlyRepeatsMayBeTheMachines(t *testing.T) {
	r := good()
	r.Crashes = nil
	if v := judge.Judge(r); len(v.Problems()) == 0 || len(v.Unsafe()) > 0 {
		t.Errorf("delivered again: problems %v, unsafe %v", v.Problems(), v.Unsafe())
	}
	r = good()
	r.Deliveries = r.Deliveries[:9]
	if v := judge.Judge(r); len(v.Unsafe()) != 1 {
		t.Errorf("lost: unsafe %v", v.Unsafe())
	}
}

func TestMoreInFlightExcusesMore(t *testing.T) {
	r := good()
	r.InFlight = 2
	d := r.Deliveries[0]
	d.Instance, d.Token, d.At = "r2", 2, at(24)
	r.Deliveries = append(r.Deliveries[:2:2], append([]judge.Delivery{d}, r.Deliveries[2:]...)...)
	if v := judge.Judge(r); len(v.Problems()) > 0 || v.Figures.Allowed != 4 {
		t.Errorf("%v, %d allowed", v.Problems(), v.Figures.Allowed)
	}
}

func TestBodiesAreBinaryAndChecked(t *testing.T) {
	b := judge.Body(7, 1<<40)
	if lane, seq, err := judge.Parse(b); err != nil || lane != 7 || seq != 1<<40 {
		t.Errorf("%d, %d, %v", lane, seq, err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"one byte differs": func(b []byte) []byte { b[20]++; return b },
		"longer":           func(b []byte) []byte { return append(b, 0) },
		"shorter":          func(b []byte) []byte { return b[:len(b)-1] },
		"empty":            func([]byte) []byte { return nil },
		"as text":          func(b []byte) []byte { return []byte(strings.ToValidUTF8(string(b), "?")) },
	} {
		if _, _, err := judge.Parse(change(judge.Body(1, 2))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
