package judge

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Record is all that a scenario saw. It is a value.
type Record struct {
	InFlight   int // maxInFlight of every task
	Sent       []Sent
	Deliveries []Delivery // in the order in which they arrived
	Crashes    []Crash
	Breaks     []Break
}

// Sent is one message that was given to a broker.
type Sent struct {
	Lane, Seq int
	// Confirmed says that the broker has it. Otherwise it may have it or not, and not twice.
	Confirmed bool
}

// Delivery is one message that reached the receiver, and that the receiver accepted.
type Delivery struct {
	Task, Instance string
	Token          int64
	Lane, Seq      int
	At             time.Time
}

// Crash is the end of a replica without a chance to acknowledge anything.
type Crash struct {
	Instance string
	At       time.Time // just before
}

// Break is a time in which connections of all subscriptions to the broker ended.
type Break struct{ From, To time.Time }

// late is how much later than a fault a request may arrive that was on its way: in buffers of the kernel, or to a
// receiver that is busy.
const late = 3 * time.Second

// between says whether the crash came between two deliveries of a message, the first by the instance that crashed.
func (c Crash) between(first, again Delivery) bool {
	return first.Instance == c.Instance && again.Instance != c.Instance && !first.At.After(c.At.Add(late)) &&
		again.At.After(c.At)
}

// between says whether connections may have broken between two deliveries.
func (b Break) between(first, again Delivery) bool {
	return !first.At.After(b.To.Add(late)) && again.At.After(b.From)
}

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
