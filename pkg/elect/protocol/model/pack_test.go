package model_test

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"unsafe"
)

// A state is kept as the sequence of its fields that are not zero. The fields are found by reflection once, so that a
// field that a machine gains is part of the state at once, and padding never is.

type field struct {
	offset uintptr
	size   uintptr
}

var layout = fieldsOf(reflect.TypeFor[state](), 0, nil)

func fieldsOf(t reflect.Type, at uintptr, into []field) []field {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			into = fieldsOf(f.Type, at+f.Offset, into)
		}
	case reflect.Array:
		for i := range t.Len() {
			into = fieldsOf(t.Elem(), at+uintptr(i)*t.Elem().Size(), into)
		}
	case reflect.Bool, reflect.Int8, reflect.Uint8, reflect.Int64:
		return append(into, field{at, t.Size()})
	default:
		panic("a state holds values of fixed size only, not " + t.String())
	}
	return into
}

func (f field) read(base unsafe.Pointer) int64 {
	if f.size == 1 {
		return int64(*(*uint8)(unsafe.Add(base, f.offset)))
	}
	return *(*int64)(unsafe.Add(base, f.offset))
}

func (f field) write(base unsafe.Pointer, v int64) {
	if f.size == 1 {
		*(*uint8)(unsafe.Add(base, f.offset)) = uint8(v)
		return
	}
	*(*int64)(unsafe.Add(base, f.offset)) = v
}

// pack appends a state to buf: pairs of how many zeros to skip, and a value.
func pack(buf []byte, s *state) []byte {
	base := unsafe.Pointer(s)
	zeros := uint64(0)
	for _, f := range layout {
		v := f.read(base)
		if v == 0 {
			zeros++
			continue
		}
		buf = binary.AppendUvarint(buf, zeros)
		buf = binary.AppendVarint(buf, v)
		zeros = 0
	}
	return buf
}

func unpack(buf []byte, s *state) {
	*s = state{}
	base := unsafe.Pointer(s)
	at := uint64(0)
	for len(buf) > 0 {
		zeros, n := binary.Uvarint(buf)
		v, more := binary.Varint(buf[n:])
		buf = buf[n+more:]
		at += zeros
		layout[at].write(base, v)
		at++
	}
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// digest names a packed state. With 128 bits no two of any number of states that can be searched have one name.
type digest [2]uint64

func digestOf(packed []byte) digest {
	return digest{maphash.Bytes(seeds[0], packed), maphash.Bytes(seeds[1], packed)}
}
