package fence

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 512

// Claim is what a caller shows: the key that it owns, and the token that it owns it under.
type Claim struct {
	Key    string // 1 to MaxKey bytes of UTF-8 without NUL; compared byte by byte
	Token  int64  // more than 0
	Shared bool   // others own the key at the same time: a reader
}

// Exclusive is the claim of a sole owner.
func Exclusive(key string, token int64) Claim { return Claim{Key: key, Token: token} }

// Shared is the claim of one of several readers.
func Shared(key string, token int64) Claim { return Claim{Key: key, Token: token, Shared: true} }

// Slot is the key of one place of a semaphore: its owners follow one another, and owners of other places do not count.
func Slot(name string, slot int) string { return name + "#" + strconv.Itoa(slot) }

// Validate is nil, or wraps [ErrInvalid] and says which field is wrong.
func (c Claim) Validate() error {
	switch {
	case c.Key == "":
		return fmt.Errorf("%w: key: must not be empty", ErrInvalid)
	case len(c.Key) > MaxKey:
		return fmt.Errorf("%w: key %.40q…: %d bytes: at most %d are allowed", ErrInvalid, c.Key, len(c.Key), MaxKey)
	case !utf8.ValidString(c.Key) || strings.IndexByte(c.Key, 0) >= 0:
		return fmt.Errorf("%w: key %q: must be UTF-8 without NUL", ErrInvalid, c.Key)
	case c.Token <= 0:
		return fmt.Errorf("%w: token %d of %s: must be more than 0", ErrInvalid, c.Token, c.Key)
	}
	return nil
}

// Limits are the largest marks with which the claim passes. A reader has to come after the last sole owner, or be that
// one itself: a writer that reads as well does so under its own token. A sole owner has to come after all, or be the
// last itself.
func (c Claim) Limits() Marks {
	if c.Shared {
		return Marks{Exclusive: c.Token, Shared: math.MaxInt64}
	}
	return Marks{Exclusive: c.Token, Shared: c.Token}
}

// Marks are what the claim raises smaller marks to.
func (c Claim) Marks() Marks {
	if c.Shared {
		return Marks{Shared: c.Token}
	}
	return Marks{Exclusive: c.Token}
}

func (c Claim) String() string {
	if c.Shared {
		return fmt.Sprintf("shared token %d of %s", c.Token, c.Key)
	}
	return fmt.Sprintf("token %d of %s", c.Token, c.Key)
}

// Marks are the largest tokens that have been seen of one key; 0: none yet. There are two, since readers own a key at
// the same time: with one mark a reader would refuse those that came before it and still read.
//
// A fence that compares where its data is, as a script or a filter does, asks for [Claim.Limits] and [Claim.Marks].
// It passes a claim when no mark is above its limit, and keeps the larger of each mark. So the rule stands here alone.
type Marks struct {
	Exclusive int64 // of sole owners
	Shared    int64 // of readers
}

// Pass says whether a claim may work, and which marks remain. The error is that of [Claim.Validate], or an [*OldError].
// With an error the marks are as before.
func (m Marks) Pass(c Claim) (Marks, error) {
	if err := c.Validate(); err != nil {
		return m, err
	}
	if limits := c.Limits(); m.Exclusive > limits.Exclusive || m.Shared > limits.Shared {
		return m, &OldError{Claim: c, Seen: m}
	}
	own := c.Marks()
	return Marks{Exclusive: max(m.Exclusive, own.Exclusive), Shared: max(m.Shared, own.Shared)}, nil
}

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
