package model_test

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"unsafe"
)

// A state is kept as the sequence of its fields that are not zero. The fields are found by reflection once. So a field
// that a machine gains is part of the state at once, and padding never is.

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

// firstOf is which field is the first that begins at or after each word of a state, and how many there are.
var firstOf = wordsOf(layout)

const word = unsafe.Sizeof(uint64(0))

func wordsOf(fields []field) [unsafe.Sizeof(state{})/word + 1]int {
	var first [unsafe.Sizeof(state{})/word + 1]int
	f := 0
	for i := range first {
		for f < len(fields) && fields[f].offset < uintptr(i)*word {
			f++
		}
		first[i] = f
	}
	return first
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

// pack appends a state to buf: pairs of how many zeros to skip, and a value. Most words of a state are zero, and none
// holds part of a field.
func pack(buf []byte, s *state) []byte {
	base := unsafe.Pointer(s)
	next := 0
	for i := range len(firstOf) - 1 {
		if *(*uint64)(unsafe.Add(base, uintptr(i)*word)) == 0 {
			continue
		}
		for f := firstOf[i]; f < firstOf[i+1]; f++ {
			v := layout[f].read(base)
			if v == 0 {
				continue
			}
			buf = binary.AppendUvarint(buf, uint64(f-next))
			buf = binary.AppendVarint(buf, v)
			next = f + 1
		}
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
