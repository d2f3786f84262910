package judge

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// bodySize is longer than what it carries, so that bodies hold bytes that are no text.
const bodySize = 64

// magic begins every body. It is not UTF-8, and has an end of a string and of a line.
var magic = [4]byte{0xff, 0x00, 0x0a, 0xc3}

// Body is the body of a lane's message: binary, and checked by a sum. Sequence numbers begin at 1.
func Body(lane, seq int) []byte {
	b := make([]byte, bodySize)
	copy(b, magic[:])
	binary.BigEndian.PutUint32(b[4:], uint32(lane))
	binary.BigEndian.PutUint64(b[8:], uint64(seq))
	for i := 16; i < bodySize-4; i++ {
		b[i] = byte(i * (seq + lane))
	}
	binary.BigEndian.PutUint32(b[bodySize-4:], crc32.ChecksumIEEE(b[:bodySize-4]))
	return b
}

// Parse reads a body.
func Parse(b []byte) (lane, seq int, err error) {
	if len(b) != bodySize || [4]byte(b) != magic ||
		binary.BigEndian.Uint32(b[bodySize-4:]) != crc32.ChecksumIEEE(b[:bodySize-4]) {
		return 0, 0, fmt.Errorf("%d bytes that were never sent: %q", len(b), b[:min(len(b), bodySize)])
	}
	return int(binary.BigEndian.Uint32(b[4:])), int(binary.BigEndian.Uint64(b[8:])), nil
}
