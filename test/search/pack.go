package search

import (
	"encoding/binary"
	"reflect"
	"unsafe"
)

// Packing turns states into bytes: equal states into equal bytes.
type Packing[S any] struct {
	Pack func(buf []byte, s *S) []byte // appends to buf
	// Unpack sets a state to what was packed. Where it is nil, states are kept as they are.
	Unpack func(packed []byte, s *S)
}

const word = 8 // bytes

// FixedSize packs states that hold values of fixed size only, and nothing that points elsewhere; it panics for others.
//
// A state is kept as the sequence of its words that are not zero: most are. Where its fields are is found by
// reflection, once. So a field that a state gains is part of it at once, and padding never is.
func FixedSize[S any]() Packing[S] {
	var fields S
	mark(reflect.TypeFor[S](), bytesOf(&fields))
	masks := make([]uint64, (unsafe.Sizeof(fields)+word-1)/word) // the bits of each word that belong to fields
	for i := range masks {
		masks[i] = load(bytesOf(&fields), i)
	}
	return Packing[S]{
		Pack: func(buf []byte, s *S) []byte { return pack(buf, bytesOf(s), masks) },
		Unpack: func(packed []byte, s *S) {
			clear(bytesOf(s))
			unpack(packed, bytesOf(s))
		},
	}
}

// bytesOf is the memory of a value.
func bytesOf[S any](s *S) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }

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
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		for i := range t.Size() {
			bytes[i] = 0xff
		}
	default:
		panic("a state holds values of fixed size only, not " + t.String())
	}
}

// load is word i. The last one may be cut short.
func load(bytes []byte, i int) uint64 {
	if end := (i + 1) * word; end <= len(bytes) {
		return binary.NativeEndian.Uint64(bytes[end-word : end])
	}
	var last [word]byte
	copy(last[:], bytes[i*word:])
	return binary.NativeEndian.Uint64(last[:])
}

// pack appends for each word that is not zero how many zeros come before it, in two bytes, and the word. Most words are
// zero, so four at a time are looked at first.
func pack(buf, bytes []byte, masks []uint64) []byte {
	next := 0
	for i := 0; i < len(masks); i += 4 {
		if end := (i + 4) * word; end <= len(bytes) {
			four := bytes[end-4*word : end : end]
			if binary.NativeEndian.Uint64(four)|binary.NativeEndian.Uint64(four[8:])|
				binary.NativeEndian.Uint64(four[16:])|binary.NativeEndian.Uint64(four[24:]) == 0 {
				continue
			}
		}
		for j := i; j < min(i+4, len(masks)); j++ {
			if v := load(bytes, j) & masks[j]; v != 0 {
				buf = binary.NativeEndian.AppendUint16(buf, uint16(j-next))
				buf = binary.NativeEndian.AppendUint64(buf, v)
				next = j + 1
			}
		}
	}
	return buf
}

// unpack sets words of what is zero.
func unpack(packed, bytes []byte) {
	at := 0
	for len(packed) > 0 {
		at += int(binary.NativeEndian.Uint16(packed))
		copy(bytes[at*word:], packed[2:2+word])
		at++
		packed = packed[2+word:]
	}
}
