//go:build unix

package mutexes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// turn is one call that got the mutex: its token, its claim, and the claims that were written in the queue by then.
type turn struct {
	token int64
	claim string
	queue []string
}

// turnOf is that of the holder with this token in a document. It has no claim where the document shows another.
func turnOf(token int64, is protocol.MutexDoc) turn {
	t := turn{token: token}
	for _, h := range is.Holders {
		if h.Token == token {
			t.claim = h.Claim
		}
	}
	for _, q := range is.Queue {
		t.queue = append(t.queue, q.Claim)
	}
	return t
}

func (t turn) String() string {
	return fmt.Sprintf("%d %s,%s", t.token, t.claim, strings.Join(t.queue, ","))
}

// turn reads the next one of a child.
func (p *peer) turn() turn {
	p.t.Helper()
	line := p.line("got")
	fields := strings.Fields(line)
	if len(fields) != 4 {
		p.t.Fatalf("it says %q", line)
	}
	token, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	claim, queue, _ := strings.Cut(fields[3], ",")
	t := turn{token: token, claim: claim}
	if queue != "" {
		t.queue = strings.Split(queue, ",")
	}
	return t
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
// in the order of the queue, and all others later. Claims without a turn are those of processes that were killed.
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
		for _, claim := range t.queue {
			place, served := at[claim]
			if !served {
				continue
			}
			if place != next {
				wrong = append(wrong, fmt.Sprintf(
					"after turn %d, %s has turn %d of all, want %d: queue %v", t.token, claim, place, next, t.queue,
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
	at := func(token int64, claim string, queue ...string) turn { return turn{token, claim, queue} }
	for name, tc := range map[string]struct {
		turns []turn
		wrong bool
	}{
		"in order":              {[]turn{at(1, "a", "b", "c"), at(2, "b", "c", "d"), at(3, "c", "d"), at(4, "d")}, false},
		"one was killed":        {[]turn{at(1, "a", "b", "c"), at(3, "c")}, false},
		"served out of order":   {[]turn{at(1, "a", "b", "c"), at(2, "c", "b"), at(3, "b")}, true},
		"the last is out":       {[]turn{at(1, "a", "b", "c", "d"), at(2, "b"), at(3, "d"), at(4, "c")}, true},
		"a newcomer enters":     {[]turn{at(1, "a", "b"), at(2, "x"), at(3, "b")}, true},
		"one token for two":     {[]turn{at(1, "a", "b"), at(2, ""), at(2, "b")}, true},
		"its place was changed": {[]turn{at(1, "a", "b", "c"), at(2, "b", "d", "c"), at(3, "c", "d"), at(4, "d")}, true},
	} {
		if wrong := disorder(tc.turns); (len(wrong) > 0) != tc.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
