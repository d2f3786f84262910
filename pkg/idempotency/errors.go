package idempotency

import "errors"

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
	// Until it does, repetitions are told that the request is in progress. Then they get the reply.
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
