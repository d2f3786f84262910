package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A file is a magic line, a line of JSON, and timestamps of a fixed size. Magic, header and the first timestamp are one
// write, so that a file is either empty or says whose it is.
const (
	magic         = "shardctl-record-1\n"
	timestampSize = 16 // two little-endian int64: CLOCK_MONOTONIC and wall clock, in nanoseconds
	suffix        = ".rec"
	maxHeader     = 4 << 10
)

// Header says who writes a file.
type Header struct {
	Key      string `json:"key"`
	Token    int64  `json:"token"`
	Session  string `json:"session"`
	Instance string `json:"instance"`
	PID      int    `json:"pid"`
	// Parent is the PID of the recorder that started this one, 0 for the process that the replica started.
	Parent int `json:"parent,omitempty"`
	// Period is the time between two timestamps; 0: 20 ms.
	Period time.Duration `json:"period,omitempty"`
}

// Timestamp is one sign of life.
type Timestamp struct {
	At   Instant
	Wall int64 // Unix nanoseconds, for people only
}

// Writer writes one file. It is for one goroutine.
type Writer struct {
	file *os.File
	buf  [timestampSize]byte
}

// Create makes the file of a process in dir and writes its first timestamp.
func Create(dir string, h Header, first Timestamp) (*Writer, error) {
	header, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	name := fmt.Sprintf("%s-%d-%d%s", strings.ReplaceAll(h.Key, "/", "_"), h.Token, h.PID, suffix)
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	w := &Writer{file: file}
	begin := append([]byte(magic), header...)
	begin = append(begin, '\n')
	begin = append(begin, w.encode(first)...)
	if _, err := file.Write(begin); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return w, nil
}

// Append writes one more timestamp.
func (w *Writer) Append(s Timestamp) error {
	_, err := w.file.Write(w.encode(s))
	return err
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

func (w *Writer) encode(s Timestamp) []byte {
	binary.LittleEndian.PutUint64(w.buf[:8], uint64(s.At))
	binary.LittleEndian.PutUint64(w.buf[8:], uint64(s.Wall))
	return w.buf[:]
}

// errNotBegun says that a file has been created and nothing written to it yet.
var errNotBegun = errors.New("nothing recorded yet")

// readProcess reads the header, the first and the last timestamp of a file, not those between. A last timestamp that is
// cut off, by SIGKILL or because it is being written, does not count.
func readProcess(path string) (Process, error) {
	file, err := os.Open(path)
	if err != nil {
		return Process{}, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return Process{}, err
	}
	if info.Size() == 0 {
		return Process{}, errNotBegun
	}
	begin := make([]byte, min(info.Size(), maxHeader))
	if _, err := file.ReadAt(begin, 0); err != nil {
		return Process{}, err
	}
	header, size, err := parseHeader(begin)
	if err != nil {
		return Process{}, err
	}
	count := (info.Size() - size) / timestampSize
	if count < 1 {
		return Process{}, errNotBegun
	}
	p := Process{Header: header, Timestamps: int(count)}
	if p.First, err = readTimestamp(file, size); err != nil {
		return Process{}, err
	}
	p.Last, err = readTimestamp(file, size+(count-1)*timestampSize)
	return p, err
}

// readTimes reads the header and the times of all timestamps of a file.
func readTimes(path string) (Header, []Instant, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Header{}, nil, err
	}
	if len(data) == 0 {
		return Header{}, nil, errNotBegun
	}
	header, size, err := parseHeader(data)
	if err != nil {
		return Header{}, nil, err
	}
	data = data[size:]
	times := make([]Instant, 0, len(data)/timestampSize)
	for ; len(data) >= timestampSize; data = data[timestampSize:] {
		times = append(times, Instant(binary.LittleEndian.Uint64(data)))
	}
	return header, times, nil
}

func parseHeader(begin []byte) (h Header, size int64, err error) {
	rest, ok := bytes.CutPrefix(begin, []byte(magic))
	line, _, found := bytes.Cut(rest, []byte("\n"))
	if !ok || !found {
		return h, 0, errors.New("not a record")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, 0, fmt.Errorf("header: %w", err)
	}
	return h, int64(len(magic) + len(line) + 1), nil
}

func readTimestamp(file *os.File, at int64) (Timestamp, error) {
	var buf [timestampSize]byte
	if _, err := file.ReadAt(buf[:], at); err != nil {
		return Timestamp{}, err
	}
	return Timestamp{
		At:   Instant(binary.LittleEndian.Uint64(buf[:8])),
		Wall: int64(binary.LittleEndian.Uint64(buf[8:])),
	}, nil
}
