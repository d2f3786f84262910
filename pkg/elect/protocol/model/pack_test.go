package model_test

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"unsafe"
)

// A state is kept as the sequence of its words that are not zero. Where its fields are is found by reflection once. So
// a field that a machine gains is part of the state at once, and padding never is.

const word = 8 // bytes

// words is how many words a state has.
const words = unsafe.Sizeof(state{}) / word

// masks are the bits of each word that belong to fields.
var masks = func() (masks [words]uint64) {
	mark(reflect.TypeFor[state](), (*[words * word]byte)(unsafe.Pointer(&masks))[:])
	return masks
}()

// mark sets the bytes of a value that belong to its fields.
func mark(t reflect.Type, bytes []byte) {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			mark(f.Type, bytes[f.Offset:])
		}
	case reflect.Array:
		for i := range t.Len() {
			mark(t.Elem(), bytes[uintptr(i)*t.Elem().Size():])
		}
	case reflect.Bool, reflect.Int8, reflect.Uint8, reflect.Int64:
		for i := range t.Size() {
			bytes[i] = 0xff
		}
	default:
		panic("a state holds values of fixed size only, not " + t.String())
	}
}

// pack appends a state to buf: for each word that is not zero how many zeros come before it, in two bytes, and the
// word. Most words are zero, so four at a time are looked at first.
func pack(buf []byte, s *state) []byte {
	all := (*[words]uint64)(unsafe.Pointer(s))
	next := 0
	for i := 0; i < len(all); i += 4 {
		if i+4 <= len(all) && all[i]|all[i+1]|all[i+2]|all[i+3] == 0 {
			continue
		}
		for j := i; j < min(i+4, len(all)); j++ {
			if v := all[j] & masks[j]; v != 0 {
				buf = binary.NativeEndian.AppendUint16(buf, uint16(j-next))
				buf = binary.NativeEndian.AppendUint64(buf, v)
				next = j + 1
			}
		}
	}
	return buf
}

func unpack(buf []byte, s *state) {
	*s = state{}
	all := (*[words]uint64)(unsafe.Pointer(s))
	at := 0
	for len(buf) > 0 {
		at += int(binary.NativeEndian.Uint16(buf))
		all[at] = binary.NativeEndian.Uint64(buf[2:])
		at++
		buf = buf[2+word:]
	}
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// digest names a packed state. With 128 bits no two of any number of states that can be searched have one name.
type digest [2]uint64

func digestOf(packed []byte) digest {
	return digest{maphash.Bytes(seeds[0], packed), maphash.Bytes(seeds[1], packed)}
}
