package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A program that exits in a hurry does so while others log, and perhaps twice: nothing panics, and what was written
// before is there.
func TestLogEndsWhileOthersWrite(t *testing.T) {
	var to strings.Builder
	w := newLossyWriter(&to)
	if _, err := w.Write([]byte("first\n")); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 1000 {
				_, _ = w.Write([]byte("more\n"))
			}
		})
	}
	for range 2 {
		writers.Go(w.close)
	}
	writers.Wait()
	if _, err := w.Write([]byte("late\n")); err != nil {
		t.Error(err)
	}
	<-w.done
	if !strings.HasPrefix(to.String(), "first\n") {
		t.Errorf("the log begins with %.20q", to.String())
	}
}

// A log that is not read does not hold up a program that exits at the hard deadline.
func TestLogWithoutReader(t *testing.T) {
	reader, writer := io.Pipe()
	defer func() { _ = reader.Close() }()
	w := newLossyWriter(writer)
	_, _ = w.Write([]byte("never read\n"))
	ended := make(chan struct{})
	go func() {
		w.close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the end waits for a reader", os.ErrDeadlineExceeded)
	}
}
