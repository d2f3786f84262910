// Package application has the application beside a replica: a process, in any language, that runs the tasks with
// assign. It asks over HTTP what it may run, and for how long. [protocol.App] has the rules.
package application

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Config is what a Hub needs.
type Config struct {
	Clock elect.Clock
	// Session is this replica's session, and the time until its hard deadline; 0 or less: the lease is over.
	Session func() (id string, left time.Duration)
	// MaxWait is how long a call waits for news at most: a tenth of the lease.
	MaxWait time.Duration
	// Guard frees the keys when this process dies; nil: it ends the application first, or there is none.
	Guard replica.ApplicationGuard
	// Load is called with the load of a key that is assigned; nil: it is not wanted. It must not block.
	Load func(key elect.Key, load float64)
	// Changed is called when another application is listened to or refused, or there is another reason why it is given
	// no keys, or none any more. It must not block.
	Changed func()
}

// MaxValidity is how long an application is promised at most at a time that it may go on, by the lease of the replica.
func MaxValidity(lease time.Duration) time.Duration { return lease * 8 / 10 }

// Hub is where the runs of tasks and the application meet. Its methods may be called concurrently.
type Hub struct {
	cfg Config

	mu      sync.Mutex
	app     *protocol.App
	keys    map[elect.Key]*assignment
	calls   map[int64]*call // those that wait
	n       int64           // of the newest call
	listed  listing
	lost    []*assignment       // those that were lost, in order, and may run still
	pending []protocol.AppEvent // of keys, that come with the next step
	latest  Status

	notified    [3]string     // what Changed was last called for
	hadCapacity bool          // it took keys once
	stopped     chan struct{} // closed by Close
}

// assignment is a key that was given, or is to be.
type assignment struct {
	Assignment

	released chan struct{}
	running  func() // called once, when the application first lists it
	stopBy   time.Time
	reason   string
	lost     time.Time // when it was another's already, or the lease was over
}

// call is a call that waits for its answer.
type call struct {
	brief    bool    // what the caller knows need not be said again
	listed   listing // empty: what runs is not known, and to be listed
	answer   chan answer
	wait     *time.Timer
	sequence protocol.AppCall
}

// answer is what a call gets.
type answer struct {
	reply   *Reply
	refused time.Duration // another application is listened to, for so long still
	dropped bool          // a newer call came
}

// listing is what the application said last of what it runs, so that it need not say it again.
type listing struct {
	app, id string
	running map[string]int64
}

// NewHub makes one without an application. Close it.
func NewHub(cfg Config) *Hub {
	h := &Hub{
		cfg: cfg, app: protocol.NewApp(), keys: map[elect.Key]*assignment{}, calls: map[int64]*call{},
		notified: [3]string{"", "", ReasonNotCalled}, stopped: make(chan struct{}),
	}
	go h.tick()
	return h
}

// Close ends the hub. No Run may be under way.
func (h *Hub) Close() { close(h.stopped) }

// tick lets time pass: what was given ends at its moment, and a new session is seen.
func (h *Hub) tick() {
	ticker := time.NewTicker(max(h.cfg.MaxWait/5, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			h.step(protocol.AppEvent{Kind: protocol.AppTick})
		case <-h.stopped:
			return
		}
	}
}

// Capacity says whether there is an application that takes keys.
func (h *Hub) Capacity() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.app.Capacity(h.cfg.Clock.Now())
}

// HadCapacity says whether there has been an application that takes keys.
func (h *Hub) HadCapacity() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hadCapacity
}

// Overdue says that the application must be killed: it has not called for as long as it may run, less a margin; or
// (lost) it still runs a key that was lost a tenth of the lease ago. After a quarter the whole replica would have to
// end.
func (h *Hub) Overdue(margin time.Duration) (overdue, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pruneLost(); len(h.lost) > 0 && time.Since(h.lost[0].lost) >= h.cfg.MaxWait {
		return true, true
	}
	return h.app.Application() != "" && h.app.Remains(h.cfg.Clock.Now()) <= margin, false
}

// pruneLost forgets those that were lost first and are released.
func (h *Hub) pruneLost() {
	for len(h.lost) > 0 {
		select {
		case <-h.lost[0].released:
			h.lost = h.lost[1:]
		default:
			return
		}
	}
}

// hold has the guard know of a key while it may run.
func (h *Hub) hold(a *assignment) error {
	if h.cfg.Guard == nil {
		return nil
	}
	return h.cfg.Guard.Assigning(a.Session, a.Key)
}

// ErrGone is how a run ends whose application has gone, or fallen silent.
var ErrGone = errors.New("the application is gone, or has not called for as long as it might run")

// Assignment is one start of a task, for the application to run.
type Assignment struct {
	Key     elect.Key
	Session string // that holds the key
	Token   int64
	Grace   time.Duration    // what the application has to stop in
	Value   elect.Checkpoint // what is kept with the key
}

// Assign runs a task in the application, as [Hub.Run] does.
func (h *Hub) Assign(ctx context.Context, env taskrun.Env) error {
	return h.Run(ctx, Assignment{
		Key: env.Lease.Key(), Session: env.Lease.Session(), Token: env.Start.Token, Grace: env.Grace, Value: env.Lease,
	}, env.Status.Running)
}

// Run has the application run a key until ctx ends, and returns once nothing of it runs. running is called when the
// application first says that it runs it. The error is ErrGone when it ended by itself.
func (h *Hub) Run(ctx context.Context, a Assignment, running func()) error {
	mine := &assignment{Assignment: a, released: make(chan struct{}), running: running}
	h.mu.Lock()
	err := h.hold(mine)
	if err == nil {
		h.keys[a.Key] = mine
		h.enqueue(protocol.AppEvent{Kind: protocol.AppAssign, Key: string(a.Key), Token: a.Token})
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-mine.released:
		return ErrGone
	case <-ctx.Done():
	}
	h.mu.Lock()
	now, cause := time.Now(), context.Cause(ctx)
	mine.stopBy, mine.reason = now.Add(a.Grace), cause.Error()
	if errors.Is(cause, elect.ErrLeaseLost) {
		h.pruneLost()
		mine.lost = now
		h.lost = append(h.lost, mine)
	}
	h.enqueue(protocol.AppEvent{Kind: protocol.AppTake, Key: string(a.Key)})
	h.mu.Unlock()
	<-mine.released
	return cause
}

// Ended says that the process of the application is gone, with all that it ran.
func (h *Hub) Ended() { h.step(protocol.AppEvent{Kind: protocol.AppEnded}) }

func (h *Hub) step(ev protocol.AppEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stepLocked(ev)
	h.notify()
}

// coalesceFor is how long an event of a key waits for those of others: keys move together, and one reply has all.
const coalesceFor = time.Millisecond

// enqueue has an event come with the next step, at the latest after coalesceFor.
func (h *Hub) enqueue(ev protocol.AppEvent) {
	if h.pending = append(h.pending, ev); len(h.pending) == 1 {
		time.AfterFunc(coalesceFor, func() { h.step(protocol.AppEvent{Kind: protocol.AppTick}) })
	}
}

// stepLocked takes an event, after the newest session and the pending events of keys.
func (h *Hub) stepLocked(ev protocol.AppEvent) {
	now := h.cfg.Clock.Now()
	session, left := h.cfg.Session()
	h.do(h.app.Step(protocol.AppEvent{Kind: protocol.AppSession, Session: session, Left: left}, now), session)
	for _, queued := range h.pending {
		queued.Left, queued.More = left, true
		h.do(h.app.Step(queued, now), session)
	}
	h.pending, ev.Left = nil, left
	h.do(h.app.Step(ev, now), session)
	h.hadCapacity = h.hadCapacity || h.app.Capacity(now)
}

func (h *Hub) do(actions []protocol.AppAction, session string) {
	for _, act := range actions {
		switch act.Kind {
		case protocol.AppRelease:
			if a := h.keys[elect.Key(act.Key)]; a != nil && a.Token == act.Token {
				delete(h.keys, a.Key)
				if h.cfg.Guard != nil {
					h.cfg.Guard.Released(a.Session, a.Key)
				}
				close(a.released)
			}
		case protocol.AppReply:
			h.answer(act.N, answer{reply: h.reply(act, session)})
		case protocol.AppRefuse:
			h.answer(act.N, answer{refused: act.ValidFor})
		case protocol.AppDrop:
			h.answer(act.N, answer{dropped: true})
		}
	}
}

func (h *Hub) answer(n int64, with answer) {
	if c := h.calls[n]; c != nil {
		delete(h.calls, n)
		c.wait.Stop()
		c.answer <- with
	}
}

// reply is what a call gets to read.
func (h *Hub) reply(act protocol.AppAction, session string) *Reply {
	c := h.calls[act.N]
	r := &Reply{
		Session: session, Seq: h.app.Seq(), ValidFor: h.promised(act.ValidFor).Seconds(), Listed: c.listed.id,
	}
	if c.brief && c.sequence.Session == session && c.sequence.Seq == r.Seq {
		return r
	}
	r.Assigned, r.Stopping = make([]Assigned, 0, len(h.keys)), []Stopping{}
	h.app.Each(func(key string, token int64, assigned bool) {
		if assigned {
			r.Assigned = append(r.Assigned, Assigned{Key: key, Token: token})
			return
		}
		a := h.keys[elect.Key(key)]
		r.Stopping = append(r.Stopping, Stopping{
			Key: key, Token: token, Within: max(0, time.Until(a.stopBy)).Seconds(), Reason: a.reason,
		})
	})
	return r
}

// promised is what a reply may promise of a validity.
func (h *Hub) promised(d time.Duration) time.Duration {
	if h.cfg.Guard == nil || h.cfg.Guard.ValidFor(d) == nil {
		return d
	}
	return 0
}

// sync takes a call, with the tokens of what it says runs. It waits for its answer, at most for the wait that it names.
func (h *Hub) sync(ctx context.Context, req *Request, running map[string]int64) (answer, error) {
	c := &call{brief: req.Same != "", answer: make(chan answer, 1)}
	h.mu.Lock()
	h.n++
	n := h.n
	c.sequence = protocol.AppCall{N: n, ID: req.App, Session: req.Session, Seq: req.Seq, Ready: req.Ready}
	switch {
	case req.Same == "":
		c.listed = listing{app: req.App, id: strconv.FormatInt(n, 10), running: running}
	case h.listed.app == req.App && h.listed.id == req.Same:
		c.listed = h.listed
	default: // what it runs is not known: nothing is concluded from this call
		c.sequence.Session, c.sequence.Seq = "", 0
	}
	c.sequence.Running = c.listed.running
	wait := min(max(0, time.Duration(req.Wait*float64(time.Second))), h.cfg.MaxWait)
	c.wait = time.AfterFunc(wait, func() { h.waited(n) })
	h.calls[n] = c
	h.stepLocked(protocol.AppEvent{Kind: protocol.AppCalled, Call: c.sequence})
	h.record(req, c.listed)
	h.notify()
	h.mu.Unlock()
	select {
	case a := <-c.answer:
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// waited answers a call that has waited for long enough. One that has no answer yet is the one that is listened to.
func (h *Hub) waited(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[n] != nil {
		h.stepLocked(protocol.AppEvent{Kind: protocol.AppWaited})
		h.notify()
	}
}

// held is the assignment of a key under a token; nil: it is not assigned under it.
func (h *Hub) held(key elect.Key, token int64) *assignment {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.keys[key]; a != nil && a.Token == token {
		return a
	}
	return nil
}
