//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// floodLine is about as long as lines of programs that write too much are.
const floodLine = 1 << 10

// floodOutput writes size bytes in lines, as fast as somebody reads them. It runs concurrently with the records: a pipe
// that is full holds up this goroutine alone.
func floodOutput(size int64, when string) {
	for when != "" {
		if _, err := os.Stat(when); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	line := append(bytes.Repeat([]byte("flood "), floodLine/6), '\n')
	chunk := bytes.Repeat(line, 64)
	for written := int64(0); written < size; {
		n, err := os.Stdout.Write(chunk[:min(int64(len(chunk)), size-written)])
		written += int64(n)
		if err != nil {
			fmt.Fprintln(os.Stderr, "recorder: flood:", err)
			return
		}
	}
	fmt.Printf("\nflooded %d bytes\n", size) //nolint:forbidigo // a task's output goes to its standard output
}
