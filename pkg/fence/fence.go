package fence

import "context"

// Fence does work under a claim.
type Fence interface {
	// Do runs work if the claim passes, and remembers its token, also when work fails. No newer claim passes before
	// work has returned, and where the fence is a transaction, before it is committed. Of shared claims several may
	// work at once.
	//
	// The error is that of the claim ([ErrOld], [ErrInvalid]), that of work, or that of the fence. With an error the
	// work does not count, where the fence is a transaction. work is called at most once, and must not call Do for the
	// same key.
	Do(ctx context.Context, c Claim, work func(ctx context.Context) error) error
}

// CheckFirst makes a Fence of a function that passes claims. The work is not part of it: something newer may pass
// while work goes on. It is for work that shows its claim once more where it writes, and is to be refused early. The
// context of work holds the claim: see [FromContext].
func CheckFirst(check func(ctx context.Context, c Claim) error) Fence { return checkFirst(check) }

type checkFirst func(ctx context.Context, c Claim) error

func (f checkFirst) Do(ctx context.Context, c Claim, work func(ctx context.Context) error) error {
	if err := f(ctx, c); err != nil {
		return err
	}
	return work(NewContext(ctx, c))
}

type claimKey struct{}

// NewContext is ctx with the claim under which the work is done. Fences call it.
func NewContext(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// FromContext is the claim that work is done under. ok is false outside of [Fence.Do].
func FromContext(ctx context.Context) (c Claim, ok bool) {
	c, ok = ctx.Value(claimKey{}).(Claim)
	return c, ok
}
