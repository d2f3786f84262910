package status

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// share is what requests take from that there is not enough of for everybody. Strangers have one, and those who are
// trusted another, so that no number of strangers holds up an operator.
type share struct {
	answering *web.InFlight // requests, those that watch not counted
	watching  *web.InFlight
	scraping  *web.InFlight // requests for metrics
	filtered  *answers      // from the snapshot, with conditions: they do not hold up those without
	read      *answers      // of what only the store has
	turns     turns         // of those that are sent a list of a watch
	reads     turns         // of those whose watch begins with events that only the store has
	slow      chan struct{} // one for each watcher that reads slowly
}

// turns holds as many as may do something at once, who take one and give it back. Use newTurns.
type turns chan struct{}

func newTurns(n int) turns {
	t := make(turns, n)
	for range n {
		t.give()
	}
	return t
}

func (t turns) give() { t <- struct{}{} }

// maxSlow is how many watchers may read slowly at once. Each keeps a list that may be an old one.
const maxSlow = 16

// halfTheProcessors leaves the other half to the rest, heartbeats among it.
func halfTheProcessors() int { return max(1, runtime.GOMAXPROCS(0)/2) }

func newShare(watchers int) *share {
	return &share{
		answering: &web.InFlight{Most: maxAnswers, MostOfOne: maxAnswersOfClient},
		watching:  &web.InFlight{Most: watchers, MostOfOne: max(1, watchers/watchShare)},
		scraping:  &web.InFlight{Most: maxScrapes, MostOfOne: maxScrapesOfClient},
		filtered:  newAnswers(halfTheProcessors()),
		read:      newAnswers(maxEventReads),
		turns:     newTurns(halfTheProcessors()),
		reads:     newTurns(maxEventReads),
		slow:      make(chan struct{}, maxSlow),
	}
}

// shares are those of strangers and of others.
type shares struct{ public, trusted *share }

func newShares(watchers int) shares {
	s := shares{newShare(watchers), newShare(watchers)}
	s.public.read.patience = answerPatience
	return s
}

func (s shares) of(r *http.Request) *share {
	if accessOf(r.Context()).Trusted {
		return s.trusted
	}
	return s.public
}

// How often the store is read for strangers, whatever they ask and however many they are. Heartbeats and changes share
// its connections.
const (
	publicEvery = time.Second / 10 // a list, or a part of one
	publicBurst = 10               // that may be read at once after a pause
)

// How long a turn is waited for.
const (
	answerPatience = time.Second // by who waits for an answer
	watchPatience  = eventTimeout
)

// pace gives strangers turns to have the store read. It may be used concurrently. Its zero value is
// ready to use.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the next turn is, or might have been
}

// errBusy says that the turn of a stranger would come too late.
var errBusy = errors.New("the store is read for others")

// busy is the answer to errBusy.
func busy() *web.Error {
	bad := web.NewError(http.StatusTooManyRequests, api.ReasonTooManyRequests,
		"the store is read %d times a second at most for all who come without a token; try again later, or ask with one",
		time.Second/publicEvery)
	bad.RetryAfter = time.Second
	return bad
}

// turn waits for a turn. It returns errBusy at once when that would take longer than patience, and the cause of ctx when
// that ends. Those who are trusted need no turn: public is false for them.
func (p *pace) turn(ctx context.Context, public bool, patience time.Duration) error {
	if !public {
		return nil
	}
	wait, ok := p.reserve(time.Now(), patience)
	if !ok {
		return errBusy
	}
	return sleep.For(ctx, wait)
}

// reserve takes the next turn, unless it is later than patience allows.
func (p *pace) reserve(now time.Time, patience time.Duration) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if earliest := now.Add(-(publicBurst - 1) * publicEvery); p.next.Before(earliest) {
		p.next = earliest
	}
	if wait = p.next.Sub(now); wait > patience {
		return 0, false
	}
	p.next = p.next.Add(publicEvery)
	return wait, true
}
