package memory

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Op is a method of the store.
type Op string

// The methods that can fail.
const (
	OpRead  Op = "read"
	OpList  Op = "list"
	OpApply Op = "apply"
	OpWatch Op = "watch"
)

// Call is a call that a client is about to make. Anyone who sees it must not change its slices.
type Call struct {
	Op       Op
	Kind     driver.Kind     // read and list
	IDs      []string        // read, in order
	Query    driver.Query    // list
	Changes  []driver.Change // apply
	Interest driver.Interest // watch
}

// Fault is what goes wrong in a call.
type Fault uint8

// The faults. To the caller all of them look the same: [elect.ErrUnavailable], for Apply in outcomes Unknown.
const (
	// None is a call that goes well.
	None Fault = iota
	// LoseRequest is a call that never reaches the database.
	LoseRequest
	// LoseAnswer is a call that the database performs, and whose answer is lost.
	LoseAnswer
	// Hang is a call that never reaches the database, and whose caller waits until its context ends: a partition.
	Hang
)

// Verdict is what happens to a call. The zero Verdict is a call that goes well at once.
type Verdict struct {
	// Delay is how long the request is under way. A context that ends before gives up the request, unless Late is set.
	Delay time.Duration
	// Late says that a request which its caller has given up still arrives when Delay is over.
	Late bool
	// AnswerDelay is how long the answer is under way. A context that ends before loses the answer of a change that
	// happened.
	AnswerDelay time.Duration
	Fault       Fault
}

var (
	errLostRequest = errors.New("request lost by a fault")
	errLostAnswer  = errors.New("answer lost by a fault")
)

// call performs act as the fault function says. act has happened, or happens at once, when it returns nil.
func (c *client) call(ctx context.Context, of Call, act func()) error {
	var v Verdict
	if f := c.fault.Load(); f != nil {
		v = (*f)(of)
	}
	v.Late = v.Late && of.Op != OpWatch // no caller would be left to end the watch
	if err := c.request(ctx, v, act); err != nil {
		return err
	}
	if v.Fault == LoseAnswer {
		return errLostAnswer
	}
	return c.wait(ctx, v.AnswerDelay)
}

func (c *client) request(ctx context.Context, v Verdict, act func()) error {
	if err := c.over(ctx); err != nil {
		return err
	}
	switch v.Fault {
	case Hang:
		return c.wait(ctx, forever)
	case LoseRequest:
		if err := c.wait(ctx, v.Delay); err != nil {
			return err
		}
		return errLostRequest
	case None, LoseAnswer:
	}
	sent := time.Now()
	if err := c.wait(ctx, v.Delay); err != nil {
		if v.Late && ctx.Err() != nil {
			time.AfterFunc(v.Delay-time.Since(sent), act)
		}
		return err
	}
	act()
	return nil
}

const forever time.Duration = -1

// wait ends after d, or before with the reason why this client does not wait any longer.
func (c *client) wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	case <-c.closed:
	}
	return c.over(ctx)
}

func (c *client) over(ctx context.Context) error {
	select {
	case <-c.closed:
		return dbstore.ErrClosed
	default:
		return ctx.Err()
	}
}
