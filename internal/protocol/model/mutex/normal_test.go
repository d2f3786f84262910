package mutex_test

import (
	"encoding/binary"
	"reflect"
	"slices"
	"unsafe"

	"github.com/shardctl/shardctl/internal/protocol"
)

// normal gives states one form that differ in nothing that counts.
func (w *world) normal() {
	for p := range w.procs {
		q := &w.procs[p]
		if !q.up {
			q.m, q.frozen, q.valid = protocol.Mutex{Session: q.m.Session}, false, false
			continue
		}
		m := &q.m
		m.Seq, m.Write.Seq, m.Backoff.Refusals = 0, 0, 0
		if m.Backoff.Until != (protocol.Instant{}) {
			m.Backoff.Until = protocol.Instant{Mono: 1, Boot: 1}
		}
		if m.Seen == (protocol.MutexHold{}) {
			m.SeenAt = protocol.Instant{}
		}
		if m.Doc.Rev != 0 {
			m.Floor = 0
		}
		m.Calls = slices.Clone(m.Calls)
		for i := range m.Calls {
			m.Calls[i].Since = protocol.Instant{}
			if m.Calls[i].Phase != protocol.CallWaiting {
				m.Calls[i].Look, m.Calls[i].Seen = protocol.NotLooked, 0
			}
		}
	}
	if w.budget[stales] == 0 {
		w.old = protocol.MutexDoc{}
	}
	if w.store.Hold == (protocol.MutexHold{}) {
		w.holdAt, w.right = 0, false
	}
	for c := range w.calls {
		for other := range w.calls[c].after {
			if w.calls[c].phase != waiting || w.calls[other].phase != waiting {
				w.calls[c].after[other] = false
			}
		}
	}
	w.renumber()
}

// revisions calls do for every revision and token of the state, in copies of what others share.
func (w *world) revisions(do func(*int64)) {
	doc := func(d *protocol.MutexDoc) {
		d.Holders, d.Queue = slices.Clone(d.Holders), slices.Clone(d.Queue)
		do(&d.Rev)
		do(&d.Exclusive)
		do(&d.Shared)
		do(&d.Hold.Token)
		for i := range d.Holders {
			do(&d.Holders[i].Token)
		}
		for i := range d.Queue {
			do(&d.Queue[i].Seen)
		}
	}
	of := func(m *message) {
		do(&m.ifRev)
		do(&m.floor)
		doc(&m.doc)
	}
	doc(&w.store)
	doc(&w.old)
	for p := range w.procs {
		q := &w.procs[p]
		doc(&q.m.Doc)
		doc(&q.m.Write.Doc)
		do(&q.m.Write.IfRev)
		do(&q.m.Floor)
		do(&q.m.Seen.Token)
		for i := range q.m.Calls {
			do(&q.m.Calls[i].Token)
			do(&q.m.Calls[i].Seen)
			do(&q.m.Calls[i].Keep.Token)
		}
		of(&q.out)
	}
	for i := range w.strays {
		of(&w.strays[i])
	}
	for c := range w.calls {
		do(&w.calls[c].token)
		do(&w.calls[c].seen)
		do(&w.calls[c].known)
	}
	for _, v := range []*int64{&w.high, &w.largest, &w.any, &w.slots[0], &w.slots[1]} {
		do(v)
	}
}

// renumber keeps the order of revisions, which are equal, and up to 2 how far they are apart. 0 stays 0.
func (w *world) renumber() {
	var used [256]bool
	largest := int64(0)
	w.revisions(func(v *int64) {
		used[*v] = true
		largest = max(largest, *v)
	})
	var to [256]int64
	last, is := int64(0), int64(0)
	for v := int64(1); v <= largest; v++ {
		if used[v] {
			is += min(v-last, 2)
			to[v], last = is, v
		}
	}
	if last != is {
		w.revisions(func(v *int64) { *v = to[*v] })
	}
}

// encoder appends what names a value.
type encoder func(buf []byte, at unsafe.Pointer) []byte

var encode = encoderOf(reflect.TypeFor[state]())

// encoderOf finds the fields of a type by reflection once. So a field that the machine gains is part of the state at
// once.
func encoderOf(t reflect.Type) encoder {
	switch t.Kind() {
	case reflect.Struct:
		var fields []encoder
		for f := range t.Fields() {
			of, offset := encoderOf(f.Type), f.Offset
			fields = append(fields,
				func(buf []byte, at unsafe.Pointer) []byte { return of(buf, unsafe.Add(at, offset)) })
		}
		return func(buf []byte, at unsafe.Pointer) []byte {
			for _, f := range fields {
				buf = f(buf, at)
			}
			return buf
		}
	case reflect.Array:
		return several(t.Elem(), func(at unsafe.Pointer) (unsafe.Pointer, int) { return at, t.Len() })
	case reflect.Slice:
		return several(t.Elem(), func(at unsafe.Pointer) (unsafe.Pointer, int) {
			s := *(*[]byte)(at)
			return unsafe.Pointer(unsafe.SliceData(s)), len(s)
		})
	case reflect.String:
		return func(buf []byte, at unsafe.Pointer) []byte {
			s := *(*string)(at)
			return append(append(buf, byte(len(s)), byte(len(s)>>8)), s...)
		}
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return func(buf []byte, at unsafe.Pointer) []byte { return append(buf, *(*byte)(at)) }
	case reflect.Int, reflect.Int64:
		return func(buf []byte, at unsafe.Pointer) []byte { return binary.AppendVarint(buf, *(*int64)(at)) }
	default:
		panic("a state holds no " + t.String())
	}
}

func several(t reflect.Type, at func(unsafe.Pointer) (unsafe.Pointer, int)) encoder {
	of, each := encoderOf(t), t.Size()
	return func(buf []byte, p unsafe.Pointer) []byte {
		first, n := at(p)
		buf = append(buf, byte(n))
		for i := range n {
			buf = of(buf, unsafe.Add(first, uintptr(i)*each))
		}
		return buf
	}
}

func bytesOf(buf []byte, s *state) []byte { return encode(buf, unsafe.Pointer(s)) }
