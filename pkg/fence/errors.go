package fence

import (
	"errors"
	"fmt"
)

var (
	// ErrOld says that another owner has followed, and has been seen here. The caller is to stop. To try again is of no
	// use.
	ErrOld = errors.New("another owner has followed")
	// ErrInvalid says that a claim is malformed, or that a fence is used wrongly.
	ErrInvalid = errors.New("invalid claim")
)

// OldError is an [ErrOld] with what was seen.
type OldError struct {
	Claim Claim
	Seen  Marks
}

// Error names the larger token.
func (e *OldError) Error() string {
	return fmt.Sprintf("%s is old: %d has been seen: %v", e.Claim, max(e.Seen.Exclusive, e.Seen.Shared), ErrOld)
}

// Unwrap returns [ErrOld].
func (e *OldError) Unwrap() error { return ErrOld }
