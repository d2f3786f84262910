//go:build unix

package mutexes

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
)

// turn is one call that got the mutex: its token, its claim, the document's revision when it was made, and the tickets
// in the queue by then.
type turn struct {
	token int64
	claim string
	asked int64
	queue []waiter
}

// waiter is a ticket: its claim, and the revision that its process saw first.
type waiter struct {
	claim string
	seen  int64
}

// turnOf is that of the holder with this token in a document. It has no claim where the document shows another.
func turnOf(token, asked int64, is protocol.MutexDoc) turn {
	t := turn{token: token, asked: asked}
	for _, h := range is.Holders {
		if h.Token == token {
			t.claim = h.Claim
		}
	}
	for _, q := range is.Queue {
		t.queue = append(t.queue, waiter{q.Claim, q.Seen})
	}
	return t
}

func (t turn) String() string {
	text := fmt.Sprintf("%d %d %q", t.token, t.asked, t.claim)
	for _, w := range t.queue {
		text += fmt.Sprintf(" %s %d", w.claim, w.seen)
	}
	return text
}

// turn reads the next one of a child.
func (p *peer) turn() turn {
	p.t.Helper()
	line := strings.NewReader(p.line("got"))
	var t turn
	var n int
	if _, err := fmt.Fscanf(line, "got %d %d %d %q", &n, &t.token, &t.asked, &t.claim); err != nil {
		p.t.Fatal(err)
	}
	for {
		var w waiter
		switch _, err := fmt.Fscan(line, &w.claim, &w.seen); {
		case errors.Is(err, io.EOF):
			return t
		case err != nil:
			p.t.Fatal(err)
		}
		t.queue = append(t.queue, w)
	}
}

// turns reads as many turns as the child has calls, and asks for so many more, one after each of the first.
func (p *peer) turns(calls, more int) (got []turn) {
	for len(got) < calls+more {
		got = append(got, p.turn())
		if len(got) <= more {
			p.tell("pass %d", calls+len(got))
		}
	}
	return got
}

// disorder says what is wrong with the order of turns. After each turn, those come that were written in the queue then,
// in the order of the queue. Another comes before one of them only if it was made when the document was no newer than
// that one had seen. Claims without a turn are those of processes that were killed.
func disorder(all []turn) (wrong []string) {
	slices.SortFunc(all, func(a, b turn) int { return cmp.Compare(a.token, b.token) })
	at := map[string]int{}
	for i, t := range all {
		if _, twice := at[t.claim]; twice || t.claim == "" {
			wrong = append(wrong, fmt.Sprintf("turn %d has claim %q, as none has or another", t.token, t.claim))
		}
		at[t.claim] = i
	}
	for i, t := range all {
		next := i + 1
		for _, w := range t.queue {
			place, served := at[w.claim]
			if !served {
				continue
			}
			for ; next < place && all[next].asked <= w.seen; next++ {
			}
			if place != next {
				wrong = append(wrong, fmt.Sprintf(
					"after turn %d, %s has turn %d of all, want %d: queue %v", t.token, w.claim, place, next, t.queue,
				))
				break
			}
			next++
		}
	}
	return wrong
}

func TestDisorder(t *testing.T) {
	t.Parallel()
	asked := func(asked, token int64, claim string, queue ...string) turn {
		t := turn{token: token, asked: asked, claim: claim}
		for i, claim := range queue {
			t.queue = append(t.queue, waiter{claim, int64(i + 1)})
		}
		return t
	}
	at := func(token int64, claim string, queue ...string) turn { return asked(9, token, claim, queue...) }
	for name, tc := range map[string]struct {
		turns []turn
		wrong bool
	}{
		"in order":              {[]turn{at(1, "a", "b", "c"), at(2, "b", "c", "d"), at(3, "c", "d"), at(4, "d")}, false},
		"one was killed":        {[]turn{at(1, "a", "b", "c"), at(3, "c")}, false},
		"served out of order":   {[]turn{at(1, "a", "b", "c"), at(2, "c", "b"), at(3, "b")}, true},
		"the last is out":       {[]turn{at(1, "a", "b", "c", "d"), at(2, "b"), at(3, "d"), at(4, "c")}, true},
		"a newcomer enters":     {[]turn{at(1, "a", "b"), at(2, "x"), at(3, "b")}, true},
		"an earlier call":       {[]turn{at(1, "a", "b", "c"), at(2, "b"), asked(2, 3, "x"), at(4, "c")}, false},
		"a later call":          {[]turn{at(1, "a", "b", "c"), asked(2, 3, "x"), at(4, "b"), at(5, "c")}, true},
		"one token for two":     {[]turn{at(1, "a", "b"), at(2, ""), at(2, "b")}, true},
		"its place was changed": {[]turn{at(1, "a", "b", "c"), at(2, "b", "d", "c"), at(3, "c", "d"), at(4, "d")}, true},
	} {
		if wrong := disorder(tc.turns); (len(wrong) > 0) != tc.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
