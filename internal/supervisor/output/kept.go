package output

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// What is kept of the output of one task, of all tasks together, and of how many tasks that have left.
const (
	ringLines = 1000
	ringBytes = 256 << 10
	logBudget = 64 << 20
	keptRings = 256
	// lineCost is what a line takes in memory without its text: its record, what the allocator rounds up, and free
	// space in the ring.
	lineCost = 80
)

// Kept keeps the newest lines of each task, all of them within a budget. Its methods may be called concurrently.
type Kept struct {
	budget int // of bytes, with lineCost for each line

	mu    sync.Mutex
	size  int // of all rings, as the budget counts
	rings map[elect.Key]*ring
	left  []elect.Key // tasks that have left, the longest gone first
}

// NewKept makes one in which nothing is kept.
func NewKept() *Kept { return &Kept{budget: logBudget, rings: map[elect.Key]*ring{}} }

// Open keeps the key's ring until it is released. The token is that of the claim.
func (l *Kept) Open(key elect.Key, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[key]
	if r == nil {
		r = &ring{}
		l.rings[key] = r
	} else if r.users == 0 {
		l.left = slices.DeleteFunc(l.left, func(k elect.Key) bool { return k == key })
	}
	r.users++
	r.claim, r.token = token, token
}

// Start notes the token of a start.
func (l *Kept) Start(key elect.Key, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rings[key]; r != nil {
		r.token = max(r.token, token)
	}
}

// Release makes the key's ring one that may be forgotten.
func (l *Kept) Release(key elect.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[key]
	if r == nil || r.users == 0 {
		return
	}
	if r.users--; r.users > 0 {
		return
	}
	if r.n == 0 {
		delete(l.rings, key)
		return
	}
	l.left = append(l.left, key)
	for len(l.left) > keptRings {
		oldest := l.left[0]
		l.left = l.left[1:]
		l.size -= l.rings[oldest].size()
		delete(l.rings, oldest)
	}
}

// Add keeps a line of the start with that token. What comes late, when the task's ring was forgotten, is left out.
func (l *Kept) Add(key elect.Key, token int64, stream taskrun.Stream, text string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[key]
	if r == nil {
		return
	}
	l.size -= r.size()
	r.push(keptLine{at: now.UnixNano(), token: token, text: text, stderr: stream == taskrun.Stderr})
	for r.n > ringLines || r.text > ringBytes {
		r.drop()
	}
	l.size += r.size()
	if l.size > l.budget {
		l.shrink()
	}
}

// Tail returns the newest n lines of the key's ring, the oldest first.
func (l *Kept) Tail(key elect.Key, n int) []taskrun.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rings[key]; r != nil {
		return r.tail(n)
	}
	return nil
}

// Output returns all that is kept of the key's output; false: nothing is, and it is not held.
func (l *Kept) Output(key elect.Key) (taskrun.Output, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[key]
	if r == nil {
		return taskrun.Output{}, false
	}
	return taskrun.Output{Held: r.users > 0, Claim: r.claim, Token: r.token, Lines: r.tail(r.n)}, true
}

// sink returns what must be held while a line of one stream of the key is passed on: its capacity is one.
func (l *Kept) sink(key elect.Key, stream taskrun.Stream) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := 0
	if stream == taskrun.Stderr {
		i = 1
	}
	r := l.rings[key]
	if r == nil {
		return make(chan struct{}, 1)
	}
	if r.sinks[i] == nil {
		r.sinks[i] = make(chan struct{}, 1)
	}
	return r.sinks[i]
}

// shrink brings all rings together a sixteenth below the budget, so that it is seldom called. The largest give up
// their oldest lines until none is larger than what can be kept of each.
func (l *Kept) shrink() {
	sizes := make([]int, 0, len(l.rings))
	for _, r := range l.rings {
		sizes = append(sizes, r.size())
	}
	limit := level(sizes, l.budget-l.budget/16)
	for _, r := range l.rings {
		before := r.size()
		for r.size() > limit {
			r.drop()
		}
		l.size -= before - r.size()
	}
}

// ring is the newest lines of one task. Its buffer is allocated with the first line. Guarded by Kept.mu.
type ring struct {
	users int        // Runs that may write to it
	claim int64      // the token with which the task was last held from
	token int64      // of the last start
	lines []keptLine // circular: the oldest of n is at first
	first int
	n     int
	text  int // bytes of all texts
	seq   uint64
	sinks [2]chan struct{} // held by who passes a line on: stdout, stderr
}

// size is what the ring counts for in the budget.
func (r *ring) size() int { return r.text + lineCost*r.n }

func (r *ring) tail(n int) []taskrun.Line {
	var lines []taskrun.Line
	for i := max(0, r.n-n); i < r.n; i++ {
		lines = append(lines, r.line(i))
	}
	return lines
}

func (r *ring) line(i int) taskrun.Line {
	rec, newer := r.lines[(r.first+i)%len(r.lines)], uint64(r.n-1-i) //nolint:gosec // G115: i is less than n
	line := taskrun.Line{
		Seq: r.seq - newer, Time: time.Unix(0, rec.at), Token: rec.token, Stream: taskrun.Stdout, Text: rec.text,
	}
	if rec.stderr {
		line.Stream = taskrun.Stderr
	}
	return line
}

func (r *ring) push(rec keptLine) {
	if r.n == len(r.lines) {
		r.resize(max(8, 2*r.n))
	}
	r.lines[(r.first+r.n)%len(r.lines)] = rec
	r.n++
	r.seq++
	r.text += len(rec.text)
}

// drop forgets the oldest line.
func (r *ring) drop() {
	r.text -= len(r.lines[r.first].text)
	r.lines[r.first] = keptLine{}
	r.first = (r.first + 1) % len(r.lines)
	if r.n--; r.n < len(r.lines)/4 {
		r.resize(len(r.lines) / 2)
	}
}

func (r *ring) resize(capacity int) {
	lines := make([]keptLine, min(capacity, ringLines+1))
	for i := range r.n {
		lines[i] = r.lines[(r.first+i)%len(r.lines)]
	}
	r.lines, r.first = lines, 0
}

// keptLine is a line as it is kept. Its number follows from its place.
type keptLine struct {
	at     int64 // Unix nanoseconds
	token  int64 // of the start
	text   string
	stderr bool
}

// level is the largest size to which all may be cut so that their sum stays within total.
func level(sizes []int, total int) int {
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := total / (len(sizes) - i); size > share {
			return share
		}
		total -= size
	}
	return math.MaxInt
}
