package program

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
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

// What was dropped while the log was not read is counted in it once it is.
func TestDroppedLinesAreCounted(t *testing.T) {
	to := &heldUp{free: make(chan struct{})}
	w := newLossyWriter(to)
	log := funcr.New(func(_, args string) { _, _ = w.Write([]byte(args + "\n")) }, funcr.Options{})
	w.report.Store(&log)
	for range ownLines + 1000 {
		_, _ = w.Write([]byte("line\n"))
	}
	close(to.free)
	for began := time.Now(); !strings.Contains(to.String(), "dropped"); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("nothing is said of the lines that were dropped")
		}
	}
	w.close()
	text := to.String()
	_, said, _ := strings.Cut(text, `"lines"=`)
	var dropped int
	if _, err := fmt.Sscanf(said, "%d", &dropped); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(text, "line\n"); got+dropped != ownLines+1000 || dropped < 900 {
		t.Errorf("%d lines were written, %d said to be dropped, of %d", got, dropped, ownLines+1000)
	}
	if strings.Count(text, "dropped") != 1 {
		t.Error("it is said more than once")
	}
}

// heldUp is a log that takes nothing until it is free.
type heldUp struct {
	free chan struct{}
	mu   sync.Mutex
	text strings.Builder
}

func (h *heldUp) Write(line []byte) (int, error) {
	<-h.free
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(line)
}

func (h *heldUp) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}
