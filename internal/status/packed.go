package status

import (
	"bytes"
	"compress/flate"
	"hash/crc32"
	"io"
	"sync"
)

// packed is a text that is compressed once and sent to any number of readers. Nothing changes it.
type packed struct {
	data []byte // blocks of deflate (RFC 1951), up to a whole byte; none of them is the last
	sum  uint32 // CRC-32 of the text
	size int64  // of the text, in bytes
}

var flaters = sync.Pool{New: func() any {
	z, _ := flate.NewWriter(nil, flate.DefaultCompression) // this level is allowed
	return z
}}

// packEvent compresses an event of a stream, of which write writes the data.
func packEvent(write func(*body)) (*packed, error) {
	return pack(func(w io.Writer) error {
		b := newBody(w, "data: ")
		write(b)
		return b.flush()
	})
}

// pack compresses what write writes. Only the result is in memory as a whole, not the text.
func pack(write func(io.Writer) error) (*packed, error) {
	z := flaters.Get().(*flate.Writer) //nolint:forcetypeassert // the pool holds no other type
	defer func() {
		z.Reset(nil)
		flaters.Put(z)
	}()
	var out bytes.Buffer
	z.Reset(&out)
	text := &summed{w: z}
	if err := write(text); err != nil {
		return nil, err
	}
	if err := z.Flush(); err != nil {
		return nil, err
	}
	return &packed{data: bytes.Clone(out.Bytes()), sum: text.sum, size: text.size}, nil
}

// summed measures what is written through it.
type summed struct {
	w    io.Writer
	sum  uint32
	size int64
}

func (s *summed) Write(p []byte) (int, error) {
	s.sum = crc32.Update(s.sum, crc32.IEEETable, p)
	s.size += int64(len(p))
	return s.w.Write(p)
}

// inflater decompresses one text at a time.
type inflater struct {
	source bytes.Reader
	r      io.ReadCloser
	buffer [chunk]byte
}

var inflaters = sync.Pool{New: func() any {
	i := &inflater{}
	i.r = flate.NewReader(&i.source)
	return i
}}

// unpack writes the text.
func (p *packed) unpack(w io.Writer) error {
	i := inflaters.Get().(*inflater) //nolint:forcetypeassert // the pool holds no other type
	defer func() {
		i.source.Reset(nil)
		inflaters.Put(i)
	}()
	i.source.Reset(p.data)
	if err := i.r.(flate.Resetter).Reset(&i.source, nil); err != nil { //nolint:forcetypeassert // as documented
		return err
	}
	// What follows the text would be the next block, and there is none.
	for left := p.size; left > 0; {
		n, err := i.r.Read(i.buffer[:])
		if n == 0 && err != nil {
			return err
		}
		if _, err := w.Write(i.buffer[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}
