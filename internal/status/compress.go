package status

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"sync"
)

// takesGzip reads an Accept-Encoding.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if coding = strings.TrimSpace(coding); !strings.EqualFold(coding, "gzip") && coding != "*" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q="), 64)
		return err != nil || q > 0
	}
	return false
}

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

// pack compresses what write writes. Only the result is in memory as a whole, not the text. The prefix is of each line
// but those that write writes as texts.
func pack(prefix string, write func(*body)) (*packed, error) {
	z := flaters.Get().(*flate.Writer) //nolint:forcetypeassert // the pool holds no other type
	defer func() {
		z.Reset(nil)
		flaters.Put(z)
	}()
	var out bytes.Buffer
	z.Reset(&out)
	text := &summed{w: z}
	b := newBody(text, prefix)
	if write(b); b.flush() != nil {
		return nil, b.err
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

// wire encodes a stream for one reader. It compresses nothing itself: what is worth it comes compressed.
type wire interface {
	text(p []byte) error
	packed(p *packed) error
	// flush has the reader's decoder see all that was written.
	flush() error
	// end completes the stream.
	end() error
}

// plainWire is for readers that take no gzip.
type plainWire struct{ w io.Writer }

func (p plainWire) text(text []byte) error {
	_, err := p.w.Write(text)
	return err
}

func (p plainWire) packed(text *packed) error { return text.unpack(p.w) }

func (plainWire) flush() error { return nil }

func (plainWire) end() error { return nil }

// gzipWire writes one member of gzip (RFC 1952). Lists are in it as they were compressed for all. Changes are stored as
// they are, so that thousands of connections need no compressor. Use newGzipWire.
type gzipWire struct {
	w    io.Writer
	sum  uint32 // CRC-32 of all
	size uint32 // of all, modulo 2^32

	begun bool
}

// gzipHeader has no flags, no time, and an unknown system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

func newGzipWire(w io.Writer) *gzipWire { return &gzipWire{w: w} }

func (g *gzipWire) begin() error {
	if g.begun {
		return nil
	}
	g.begun = true
	_, err := g.w.Write(gzipHeader)
	return err
}

func (g *gzipWire) text(p []byte) error {
	if err := g.begin(); err != nil {
		return err
	}
	g.sum = crc32.Update(g.sum, crc32.IEEETable, p)
	g.size += uint32(len(p)) //nolint:gosec // G115: modulo 2^32, as the format has it
	for len(p) > 0 {
		part := p[:min(len(p), 0xffff)]
		if err := g.store(part, false); err != nil {
			return err
		}
		p = p[len(part):]
	}
	return nil
}

// packed puts the blocks of the text into the stream. They refer to nothing before them.
func (g *gzipWire) packed(p *packed) error {
	if err := g.begin(); err != nil {
		return err
	}
	g.sum = joinedCRC(g.sum, p.sum, p.size)
	g.size += uint32(p.size) //nolint:gosec // G115: modulo 2^32, as the format has it
	_, err := g.w.Write(p.data)
	return err
}

// store writes a block of deflate (RFC 1951, 3.2.4) that holds a text as it is. Blocks begin and end with a byte here.
func (g *gzipWire) store(text []byte, last bool) error {
	var head [5]byte
	if last {
		head[0] = 1
	}
	n := uint16(len(text)) //nolint:gosec // G115: at most 0xffff
	binary.LittleEndian.PutUint16(head[1:], n)
	binary.LittleEndian.PutUint16(head[3:], ^n)
	if _, err := g.w.Write(head[:]); err != nil || len(text) == 0 {
		return err
	}
	_, err := g.w.Write(text)
	return err
}

// flush writes an empty block: some decoders hold back what none follows.
func (g *gzipWire) flush() error {
	if err := g.begin(); err != nil {
		return err
	}
	return g.store(nil, false)
}

func (g *gzipWire) end() error {
	if err := g.begin(); err != nil {
		return err
	}
	if err := g.store(nil, true); err != nil {
		return err
	}
	_, err := g.w.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, g.sum), g.size))
	return err
}

// joinedCRC is the CRC-32 of two texts, one after the other, from that of each; n is the length of the second. A zero
// byte more is a multiplication by x^8 in the field of the polynomial, as zlib's crc32_combine has it.
func joinedCRC(first, second uint32, n int64) uint32 {
	power := uint32(1) << 31        // x^0: the highest bit is the lowest power
	square := uint32(1) << (31 - 8) // x^8, then its squares
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			power = multiplied(square, power)
		}
		square = multiplied(square, square)
	}
	return multiplied(power, first) ^ second
}

// multiplied is a·b modulo the polynomial.
func multiplied(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry == 1 {
			b ^= crc32.IEEE
		}
	}
	return product
}
