package status

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"
)

// TestWire holds that whatever is written, compressed before or not, with flushes anywhere, is read back.
func TestWire(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var zipped, plain, want bytes.Buffer
		wires := []wire{newGzipWire(&zipped), plainWire{&plain}}
		each := func(do func(w wire) error) {
			for _, w := range wires {
				if err := do(w); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range random.IntN(8) {
			part := make([]byte, random.IntN(200_000))
			for i := range part {
				part[i] = "abcdefgh"[random.IntN(8)]
			}
			if random.IntN(2) == 0 {
				want.Write(part)
				each(func(w wire) error { return w.text(part) })
			} else {
				p, err := packEvent(func(b *body) { b.text(string(part)) })
				if err != nil {
					t.Fatal(err)
				}
				want.Write(part)
				each(func(w wire) error { return w.packed(p) })
			}
			if random.IntN(2) == 0 {
				each(wire.flush)
			}
		}
		each(wire.end)
		if !bytes.Equal(plain.Bytes(), want.Bytes()) {
			t.Fatalf("plain: %d bytes of %d", plain.Len(), want.Len())
		}
		r, err := gzip.NewReader(&zipped)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want.Bytes()) { // checks length and sum
			t.Fatalf("%d bytes of %d: %v", len(got), want.Len(), err)
		}
	}
}

// TestJoinedCRC compares with the sum of the whole text.
func TestJoinedCRC(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		text := make([]byte, random.IntN(5000))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		first := text[:random.IntN(len(text)+1)]
		second := text[len(first):]
		got := joinedCRC(crc32.ChecksumIEEE(first), crc32.ChecksumIEEE(second), int64(len(second)))
		if want := crc32.ChecksumIEEE(text); got != want {
			t.Fatalf("%d and %d bytes: %08x, want %08x", len(first), len(second), got, want)
		}
	}
}
