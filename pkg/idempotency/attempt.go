package idempotency

import "context"

// Attempt tells the work what came before it.
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
