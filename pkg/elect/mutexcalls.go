package elect

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// mutexCalls are the calls of this process for mutexes, from the first question until the release. Only the loop
// touches them.
type mutexCalls struct {
	c    *calls
	node *engine.Engine // set once there is one
	runs *runs
	all  map[string]*mutexCall // by claim
}

var _ engine.Calls = (*mutexCalls)(nil)

// mutexCall is one call of Lock.
type mutexCall struct {
	name, id, claim string
	ask             protocol.MutexAsk
	values          context.Context // of the hold's
	answer          chan mutexAnswer
	since           protocol.Instant // of the last step
	hold            *Hold            // nil until it is granted
	over            bool             // the hold's end was reported
	lost            error            // why the hold ended, when it did not end by its release
	released        []chan<- error
}

type mutexAnswer struct {
	hold *Hold
	err  error
}

func newMutexCalls(c *calls, runs *runs) *mutexCalls {
	return &mutexCalls{c: c, runs: runs, all: map[string]*mutexCall{}}
}

// ask begins a call.
func (mc *mutexCalls) ask(call *mutexCall) {
	mc.step(call, MutexAsked, nil)
	if mc.node.Session.Closing() {
		mc.refuse(call, ErrClosed)
		return
	}
	mc.all[call.claim] = call
	mc.node.Mutexes.Ask(call.id, call.claim, call.ask, mc.node.Moment())
}

// refuse answers a call that gets nothing.
func (mc *mutexCalls) refuse(call *mutexCall, err error) {
	delete(mc.all, call.claim)
	mc.step(call, MutexRefused, err)
	call.answer <- mutexAnswer{err: err}
}

// giveUp ends a call whose context has ended, also when it was granted a moment ago. The error is what the call
// returns: it says where the store has not shown that others are before it.
func (mc *mutexCalls) giveUp(ctx context.Context, call *mutexCall) error {
	err := context.Cause(ctx)
	if mc.all[call.claim] == nil {
		return err // it was answered
	}
	if call.hold == nil && !mc.node.Mutexes.Behind(call.id, call.claim) {
		err = endedUnanswered(ctx)
	}
	if call.hold != nil {
		call.hold.end(ErrReleased)
		mc.over(call, MutexReleased, nil)
	} else {
		mc.refuse(call, err)
	}
	mc.node.Mutexes.GiveUp(call.id, call.claim, mc.node.Moment())
	return err
}

// release takes a holder out. What keeps the mutex then is detached; 0: nothing. lost is why it had ended before; nil:
// it had not.
func (mc *mutexCalls) release(claim string, detached time.Duration, lost error, done chan<- error) {
	call := mc.all[claim]
	if call == nil {
		done <- nil
		return
	}
	if lost != nil {
		mc.over(call, MutexLost, lost)
	} else {
		mc.over(call, MutexReleased, nil)
	}
	call.released = append(call.released, done)
	if detached > 0 {
		mc.node.Mutexes.Detach(call.id, claim, detached, mc.node.Moment())
	} else {
		mc.node.Mutexes.Release(call.id, claim, mc.node.Moment())
	}
}

// reasons are the errors of the reasons of a machine.
var reasons = map[protocol.MutexReason]error{
	protocol.MutexBusy:       ErrLocked,
	protocol.QueueFull:       ErrQueueFull,
	protocol.LimitDiffers:    ErrLimit,
	protocol.NotAlone:        ErrShared,
	protocol.LeaseExpired:    ErrLeaseLost,
	protocol.HeldTooLong:     ErrMaxHold,
	protocol.HolderGone:      ErrLeaseLost,
	protocol.MutexUnwritable: ErrTooLarge,
}

// Became implements [engine.Calls].
func (mc *mutexCalls) Became(r engine.MutexResult) {
	call := mc.all[r.Claim]
	if call == nil {
		return
	}
	err := reasons[r.Reason]
	if r.Closed {
		err = ErrClosed
	}
	switch r.Kind {
	case protocol.MutexGranted:
		mc.step(call, MutexObtained, nil)
		call.hold = mc.granted(call, r)
		call.answer <- mutexAnswer{hold: call.hold}
	case protocol.MutexRefused:
		if call.hold == nil {
			mc.refuse(call, err)
			return
		}
		call.answerReleased(err) // of a detachment
	case protocol.MutexLost:
		call.lost = err
		call.hold.end(err)
		mc.over(call, MutexLost, err)
	case protocol.MutexDone:
		delete(mc.all, r.Claim)
		call.answerReleased(call.lost)
	default:
	}
}

// answerReleased answers those who wait for the release.
func (call *mutexCall) answerReleased(err error) {
	for _, done := range call.released {
		done <- err
	}
	call.released = nil
}

// granted begins a hold.
func (mc *mutexCalls) granted(call *mutexCall, r engine.MutexResult) *Hold {
	session := mc.node.Session.ID()
	ctx, cancel := context.WithCancelCause(call.values)
	h := &Hold{
		calls: mc, claim: call.claim, name: call.name, slot: r.Slot, ask: call.ask, inner: ctx, cancel: cancel,
		lease: newLease(mc.c, mc.runs, session, record.NewKey(valuesOfMutexes, call.name), r.Token, TaskStatus{}),
	}
	h.run = &watchedRun{Runnable: holdRun{h}, key: h.lease.key, session: session, harmless: true}
	mc.runs.dog.add(h.run)
	mc.runs.dog.begun(h.run)
	return h
}
