package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// How many requests of a share are answered at once, those that watch not counted.
const (
	maxAnswers         = 64
	maxAnswersOfClient = 16
)

// watchShare is the part of all watches that one client may have.
const watchShare = 4

const (
	// maxScrapes is how many are sent the metrics at once, and maxScrapesOfClient of them to one client. Those who read
	// slowly are among them: they keep a connection, and little else.
	maxScrapes         = 64
	maxScrapesOfClient = 8
	// maxEventReads is how many lists of events are made at once. Each may wait for the store.
	maxEventReads = 8
	// eventTimeout limits one reading, so that a store that hangs does not hold requests.
	eventTimeout = 5 * time.Second
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

func newShare(watches int) *share {
	return &share{
		answering: &web.InFlight{Most: maxAnswers, MostOfOne: maxAnswersOfClient},
		watching:  &web.InFlight{Most: watches, MostOfOne: max(1, watches/watchShare)},
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

func newShares(watches int) shares {
	s := shares{newShare(watches), newShare(watches)}
	s.public.read.patience = answerPatience
	return s
}

func (s shares) of(r *http.Request) *share {
	if accessOf(r.Context()).Trusted {
		return s.trusted
	}
	return s.public
}

type answeringKey struct{}

// stopAnswering gives back the request's place among those that are answered, since it has one among those that watch.
func stopAnswering(r *http.Request) {
	if leave, ok := r.Context().Value(answeringKey{}).(func()); ok {
		leave()
	}
}

// enter counts the request, until leave is called, or refuses it. what says what too many do.
func enter(f *web.InFlight, r *http.Request, reason, what string) (leave func(), bad *web.Error) {
	leave, entry := f.Enter(web.Client(r))
	switch entry {
	case web.ClientFull:
		bad = web.NewError(http.StatusTooManyRequests, reason,
			"%d %s already that come from your address, as many as from one; try again later", f.MostOfOne, what)
		bad.RetryAfter = time.Second
	case web.Full:
		bad = web.Unavailable(reason, "%d %s already; try again later", f.Most, what)
	case web.Entered:
	}
	return leave, bad
}

// answers makes each answer once for all who ask for the same while it is made. Use newAnswers.
type answers struct {
	flights  singleflight.Group
	slots    chan struct{} // one for each that is made at the moment
	patience time.Duration // how long one of them is waited for; 0: until there is one
}

func newAnswers(atOnce int) *answers { return &answers{slots: make(chan struct{}, atOnce)} }

// get is what write writes, or the error that it returns. It depends on the request's address, on whether output is
// hidden from it, and on the version of the snapshot, which is 0 where the store is asked. ctx does not end with one
// of those who wait.
func (a *answers) get(
	r *http.Request, version uint64, write func(ctx context.Context, b *body) *web.Error,
) *answer {
	same := fmt.Sprintf("%d %t %s", version, outputHidden(r) != nil, r.URL.RequestURI())
	lasting := context.WithoutCancel(r.Context())
	v, _, _ := a.flights.Do(same, func() (any, error) {
		if !a.enter() {
			return &answer{bad: busy()}, nil
		}
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(lasting, web.AnswerTimeout)
		defer cancel()
		return makeAnswer(func(b *body) *web.Error { return write(ctx, b) }), nil
	})
	return v.(*answer) //nolint:forcetypeassert // as returned above
}

// enter takes a slot.
func (a *answers) enter() bool {
	var over <-chan time.Time
	if a.patience > 0 {
		timer := time.NewTimer(a.patience)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case a.slots <- struct{}{}:
		return true
	case <-over:
		return false
	}
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
	return clock.Sleep(ctx, wait)
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
