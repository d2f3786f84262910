package tasks

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// What is kept of the output of one task, and of how many tasks that have left.
const (
	ringLines = 1000
	ringBytes = 256 << 10
	keptRings = 256
)

// Line is a line that a command wrote.
type Line struct {
	Seq    uint64 // counts the task's lines from 1, without gaps
	Time   time.Time
	Stream Stream
	Text   string
}

// logs keeps the newest lines of each task.
type logs struct {
	mu    sync.Mutex
	rings map[elect.Key]*ring
	left  []elect.Key // tasks that have left, the longest gone first
}

// ring is the newest lines of one task. What is dropped is the oldest.
type ring struct {
	mu    sync.Mutex
	users int // Runs that write to it; guarded by logs.mu
	lines []Line
	bytes int
	seq   uint64
	more  chan struct{} // closed at the next line, or when the task has left
	over  bool
}

func newLogs() *logs { return &logs{rings: map[elect.Key]*ring{}} }

// open keeps the key's ring until it is released.
func (l *logs) open(key elect.Key) *ring {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[key]
	if r == nil {
		r = &ring{more: make(chan struct{})}
		l.rings[key] = r
	}
	r.users++
	r.setOver(false)
	l.left = slices.DeleteFunc(l.left, func(k elect.Key) bool { return k == key })
	return r
}

// release makes the key's ring one that may be forgotten, and ends those who follow it.
func (l *logs) release(key elect.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[key]
	if r == nil {
		return
	}
	if r.users--; r.users > 0 {
		return
	}
	r.setOver(true)
	l.left = append(l.left, key)
	for len(l.left) > keptRings {
		oldest := l.left[0]
		l.left = l.left[1:]
		delete(l.rings, oldest)
	}
}

func (l *logs) ring(key elect.Key) *ring {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rings[key]
}

func (l *logs) tail(key elect.Key, n int) []Line {
	r := l.ring(key)
	if r == nil || n <= 0 {
		return nil
	}
	lines, _, _ := r.after(0)
	return lines[max(0, len(lines)-n):]
}

func (l *logs) follow(ctx context.Context, key elect.Key, n int) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		r := l.ring(key)
		if r == nil {
			return
		}
		lines, more, over := r.after(0)
		seen := r.last(lines)
		lines = lines[max(0, len(lines)-max(0, n)):]
		for {
			for _, line := range lines {
				seen = line.Seq
				if !yield(line) {
					return
				}
			}
			if over {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-more:
			}
			lines, more, over = r.after(seen)
		}
	}
}

// last is the number of the newest of lines, as after returned them from 0.
func (*ring) last(lines []Line) uint64 {
	if len(lines) == 0 {
		return 0
	}
	return lines[len(lines)-1].Seq
}

func (r *ring) add(stream Stream, text string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	r.lines = append(r.lines, Line{Seq: r.seq, Time: now, Stream: stream, Text: text})
	r.bytes += len(text)
	for len(r.lines) > ringLines || r.bytes > ringBytes {
		r.bytes -= len(r.lines[0].Text)
		r.lines[0] = Line{} // its text may be freed while the array lives on
		r.lines = r.lines[1:]
	}
	r.wake()
}

// after copies the lines newer than seq, and returns the channel that is closed when there are more.
func (r *ring) after(seq uint64) (lines []Line, more <-chan struct{}, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.lines)
	for i > 0 && r.lines[i-1].Seq > seq {
		i--
	}
	return append(lines, r.lines[i:]...), r.more, r.over
}

func (r *ring) setOver(over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = over
	if over {
		r.wake()
	}
}

func (r *ring) wake() {
	close(r.more)
	r.more = make(chan struct{})
}
