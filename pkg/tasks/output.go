package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxLine is the longest line passed on in one piece, in bytes.
const maxLine = 64 << 10

// How long output is waited for once nothing of its command is left: by the key, which waits for no log, and
// then in the background, for ends of the pipes that somebody else still has.
const (
	outputWait = 250 * time.Millisecond
	outputEnd  = 5 * time.Second
)

// output is the reading side of a command's pipes. The pipes are the queue: a reader that waits for the sink fills them,
// and that holds up the command.
type output struct {
	reads   []*os.File
	readers sync.WaitGroup
	done    chan struct{} // closed when all readers have ended
}

// pipes opens the output of one start. The writing ends go to the starter.
func (r *running) pipes() (out *output, stdout, stderr *os.File, err error) {
	outRead, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open a pipe for the output: %w", err)
	}
	errRead, stderr, err := os.Pipe()
	if err != nil {
		closeFiles(outRead, stdout)
		return nil, nil, nil, fmt.Errorf("open a pipe for the output: %w", err)
	}
	out = &output{reads: []*os.File{outRead, errRead}, done: make(chan struct{})}
	out.readers.Go(func() { r.read(outRead, Stdout) })
	out.readers.Go(func() { r.read(errRead, Stderr) })
	r.s.readers.Go(func() {
		defer close(out.done)
		out.readers.Wait()
		closeFiles(out.reads...)
	})
	return out, stdout, stderr, nil
}

// end is called when nothing of the command is left. What it wrote last is passed on soon, and never later than a few seconds.
func (o *output) end() {
	timer := time.NewTimer(outputWait)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
		for _, f := range o.reads {
			_ = f.SetReadDeadline(time.Now().Add(outputEnd)) // it may be closed by now
		}
	}
}

func (r *running) read(from io.Reader, stream Stream) {
	sink, key := r.s.cfg.Output, r.hold.Key()
	err := splitLines(from, func(line string) {
		r.ring.add(stream, line, time.Now())
		if sink != nil {
			sink.Line(key, stream, line)
		}
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.log.Error(err, "reading the task's output failed")
	}
}

// splitLines passes on what it reads until EOF, line by line, without line ends, in pieces of at most maxLine bytes.
func splitLines(from io.Reader, line func(string)) error {
	chunk := make([]byte, 4<<10)
	var part []byte
	for {
		n, err := from.Read(chunk)
		for data := chunk[:n]; len(data) > 0; {
			end := bytes.IndexByte(data, '\n')
			if end < 0 {
				part = emitFull(append(part, data...), line)
				break
			}
			part = emitFull(append(part, data[:end]...), line)
			line(string(part))
			if part = part[:0]; cap(part) > 2*len(chunk) {
				part = nil // one long line should not cost memory for ever
			}
			data = data[end+1:]
		}
		if err == nil {
			continue
		}
		if len(part) > 0 {
			line(string(part))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// emitFull passes on full pieces of a line that is too long, and returns the rest: what is exactly full may be all of it.
func emitFull(part []byte, line func(string)) []byte {
	for len(part) > maxLine {
		line(string(part[:maxLine]))
		part = append(part[:0], part[maxLine:]...)
	}
	return part
}
