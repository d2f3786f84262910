// Package idempotency does the work of a request at most once, however often the request is sent.
//
// A request has an ID, which its sender makes and repeats, and a fingerprint of what it asks for. [Guard.Do] keeps a
// record under the ID, calls the work, and keeps its reply. Repetitions get that reply:
//
//	reply, err := guard.Do(ctx, idempotency.Request{ID: id, Fingerprint: print}, pay)
//
// Package idempotencyhttp is the middleware for HTTP.
//
// # Exactly once, or at most once
//
// It depends on where the record is. Within the transaction of the work ([SQL], [SQLTransactions], and package
// idempotencymongo) the effect and its record happen together or not at all: exactly one effect. Everything that the
// work changes has to be in that transaction. A mail that it sends is not.
//
// Elsewhere ([Memory], and package idempotencystore) the record is written before the work and after it: at most one
// effect. A caller that dies in between leaves a record that says so. Whether there was an effect is for people to find
// out, or for the work itself with [Config.Recover].
//
// # States
//
//	           claimed               the work returned a reply
//	(none) ──────────────▶ started ────────────────────────────▶ done
//	  ▲ ▲                   │  │ ▲
//	  │ └───────────────────┘  │ │ Recover
//	  │  NoEffect              ▼ │
//	  └──────────────────── failed: an error, a panic, or the death of the caller
//	   after Config.Keep
//
// What comes of a repetition:
//
//	started, its caller lives   ErrInProgress, or it waits (Config.Wait)
//	started, its caller is dead ErrInterrupted, or the work is called again (Config.Recover)
//	failed                      ErrFailed, or the work is called again (Config.Recover)
//	done                        the reply
//	any, another fingerprint    ErrMismatch
//
// The rules are a pure value, which the tests search for every order of events, with each rule left out in turn.
package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Limits of [Config.Keep].
const (
	DefaultKeep = 24 * time.Hour
	MinKeep     = time.Second
	MaxKeep     = 30 * 24 * time.Hour
)

// Config is what a Guard is made of. One of Records and Transact is required.
type Config struct {
	// Records keeps the records outside of the transactions of the work: at most one effect.
	Records Records
	// Transact keeps each record in a transaction with the work: exactly one effect.
	Transact Transact

	// Keep is how long a record is kept after it was last written. Repetitions that come later are new requests. The
	// work's context ends after that time as well. From [MinKeep] to [MaxKeep]; 0: [DefaultKeep].
	Keep time.Duration
	// Wait has a repetition wait while another caller is at work; else it gets ErrInProgress at once. Some databases
	// have it wait in any case where the record is in the transaction of the work: see [Dialect].
	Wait bool
	// Recover calls the work again after a failure, or after the death of a caller half way. [AttemptFrom] gives the
	// work. Else repetitions get ErrFailed or ErrInterrupted, since there may have been an effect.
	Recover bool

	// Observe gets how each call of Do ended, for metrics; nil: none does. It must not block.
	Observe func(Outcome)
}

// Transact begins a transaction, calls do with it, and commits it when do returns nil; else it rolls it back and
// returns the error of do. It may do all of that again when the database asks for it, as it does after a serialization
// failure. within carries the transaction to the work.
type Transact func(ctx context.Context, do func(within context.Context, in Records) error) error

// Outcome is how a call of [Guard.Do] ended.
type Outcome string

// The outcomes.
const (
	OutcomeDone       Outcome = "done"        // the work was called and returned a reply
	OutcomeError      Outcome = "error"       // the work was called and returned an error
	OutcomeReplayed   Outcome = "replayed"    // the reply was kept before
	OutcomeInProgress Outcome = "in_progress" // another caller is at work
	OutcomeMismatch   Outcome = "mismatch"    // the ID was used for another request
	OutcomeFailed     Outcome = "failed"      // it failed before, or its caller died half way
	OutcomeTakenOver  Outcome = "taken_over"  // the work was called, and the record is another's
	OutcomeUnknown    Outcome = "unknown"     // the database did not answer, or the context ended
)

// Guard sees to it that the work of a request is done at most once. Its methods may be called concurrently.
type Guard struct{ cfg Config }

// New makes a Guard. The error names every field that is not as described, and wraps [ErrInvalid].
func New(cfg Config) (*Guard, error) {
	if cfg.Keep == 0 {
		cfg.Keep = DefaultKeep
	}
	var errs []error
	if (cfg.Records == nil) == (cfg.Transact == nil) {
		errs = append(errs, fmt.Errorf("%w: Records and Transact: set exactly one of them", ErrInvalid))
	}
	if cfg.Keep < MinKeep || cfg.Keep > MaxKeep {
		errs = append(errs, fmt.Errorf("%w: Keep is %s, want %s to %s", ErrInvalid, cfg.Keep, MinKeep, MaxKeep))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Outcome) {}
	}
	return &Guard{cfg}, nil
}

// In is the guard with records of the caller's own, such as those of [SQL] in a transaction that the caller has begun
// and will commit or roll back.
func (g *Guard) In(r Records) *Guard {
	cfg := g.cfg
	cfg.Records, cfg.Transact = r, nil
	return &Guard{cfg}
}

// Transactional says whether records are in a transaction with the work, so that an error of the work leaves nothing.
func (g *Guard) Transactional() bool { return g.cfg.Transact != nil || g.cfg.Records.Transactional() }

// Do calls work unless the request was seen before, and returns its reply; or else the reply that was kept, or why
// there is none. The errors are those above, what work returned, and those of the database and of the context.
//
// The context of work ends with ctx, after [Config.Keep], and when others may take this process for dead. When work
// panics the failure is kept and the panic goes on.
//
// In a transaction of the caller's own every error asks for a rollback, but for those that say nothing was done.
func (g *Guard) Do(ctx context.Context, r Request, work func(context.Context) (Reply, error)) (Reply, error) {
	if err := r.Validate(); err != nil {
		return Reply{}, err
	}
	if g.cfg.Transact == nil {
		reply, outcome, err := g.try(ctx, g.cfg.Records, r, work)
		g.cfg.Observe(outcome)
		return reply, err
	}
	var reply Reply
	outcome := OutcomeUnknown
	err := g.cfg.Transact(ctx, func(within context.Context, in Records) (err error) {
		reply, outcome, err = g.try(within, in, r, work)
		return err
	})
	if err != nil {
		reply = Reply{}
		if outcome == OutcomeDone || outcome == OutcomeReplayed {
			outcome = OutcomeUnknown // the commit failed
		}
	}
	g.cfg.Observe(outcome)
	return reply, err
}

// try sees one call through.
func (g *Guard) try(
	ctx context.Context, records Records, r Request, work func(context.Context) (Reply, error),
) (Reply, Outcome, error) {
	d := &driver{
		cfg: g.cfg, records: records, req: r, work: work,
		call: call{
			Rules: rules{Wait: g.cfg.Wait, Recover: g.cfg.Recover, Transactional: records.Transactional()},
			Claim: uuid.NewString(), Print: r.Fingerprint,
		},
	}
	outcome, err := d.run(ctx)
	if err != nil {
		err = fmt.Errorf("request %.80q: %w", r.ID, err)
	}
	return d.reply, outcome, err
}

// Attempt says what came before the work.
type Attempt struct {
	// Number is 1 for the first call of the work, and larger only with [Config.Recover].
	Number int
	// Before is how the attempt before this one ended: Failed, or Started when its caller died half way. Empty for the
	// first. The attempt before may have had its effect: the work is to find out, and finish it or report it.
	Before State
	// Token rises with every attempt of a request, until its record is forgotten. Whatever the work changes can refuse
	// a token that is smaller than the largest it has seen, and so a caller that was frozen and taken for dead.
	Token int64
}

type attemptKey struct{}

// AttemptFrom is the attempt that a context of work belongs to; the zero Attempt for another context.
func AttemptFrom(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}

func withAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// Errors of [Guard.Do] that callers branch on. What else it returns is the error of the work, of the context, or of
// the database.
var (
	// ErrInvalid says that a request or a configuration is not as described.
	ErrInvalid = errors.New("invalid")
	// ErrMismatch says that the ID was used before with another fingerprint. Nothing was done. HTTP: 422.
	ErrMismatch = errors.New("request ID was used for another request")
	// ErrInProgress says that another caller is at work on the request. Nothing was done by this call. HTTP: 409.
	ErrInProgress = errors.New("request is in progress")
	// ErrFailed says that the work returned an error before, and may have had an effect. Nothing was done by this call.
	// With [Config.Recover] the work is called again instead.
	ErrFailed = errors.New("request failed before")
	// ErrInterrupted is the [ErrFailed] of a caller that died, or was given up, half way.
	ErrInterrupted = errors.New("its caller died half way")
	// ErrReplyTooLarge says that a reply passes [MaxReply]. Where the record is in the transaction of the work, the
	// transaction must not be committed. Elsewhere the work is done, its caller gets the reply beside this error, and
	// repetitions get this error alone.
	ErrReplyTooLarge = errors.New("reply is too large to be kept")
	// ErrTakenOver says that this caller was taken for dead while it worked, and the record is another's or says that
	// it was interrupted. The work is done all the same, and may have been done twice.
	ErrTakenOver = errors.New("request was taken over")
	// ErrNotKept says that it is not known whether the reply is kept: the database did not answer. The work is done.
	// Until it does, repetitions get the error that the request is in progress. Then they get the reply.
	ErrNotKept = errors.New("not known whether the reply is kept")
	// ErrUnavailable says that the database did not answer before anything was done.
	ErrUnavailable = errors.New("records unavailable")
)

// noEffectError marks an error.
type noEffectError struct{ error }

// Unwrap is the error as it was.
func (e noEffectError) Unwrap() error { return e.error }

// NoEffect says of an error of the work that nothing was done: the request is forgotten, and its next repetition is the
// first. Every other error may come after an effect, so it is kept as a failure. Nil stays nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return noEffectError{err}
}

// hadNoEffect says whether the work said so.
func hadNoEffect(err error) bool {
	_, marked := errors.AsType[noEffectError](err)
	return marked
}
