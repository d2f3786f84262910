// Package fence is the receiving side of a fencing token: it refuses the work of an owner that another has followed.
//
// No lease can rule out that an old owner writes once more, after a long pause of its whole machine. Its token can. The
// tokens of a key rise with every claim, on any machine, for ever. So what is written to remembers the largest token
// that it has seen of each key, and refuses a smaller one. See Kleppmann, "How to do distributed locking" (2016).
//
// It has to compare, remember and work in one step. Nothing may come between, or an old owner passes the comparison,
// is paused, and works after its follower. So each fence is for one kind of place, and does the three there:
//
//   - [Memory], in the memory of one process;
//   - package fencesql, in a transaction of PostgreSQL, MySQL, MariaDB or SQLite;
//   - package fencemongo, in one update or one transaction of MongoDB;
//   - package fenceredis, in one script of Redis;
//   - package fencehttp, in front of an HTTP handler, on top of any of the others.
//
// What to ask for is a [Claim]. [Exclusive] is that of a sole owner:
//
//	if err := fences.Check(ctx, tx, fence.Exclusive("reports/monthly", lease.Token())); err != nil {
//		return err // it wraps fence.ErrOld: another has followed
//	}
//
// [Shared] is that of one of several readers, and [Slot] names one place of a semaphore. All fences take the decision
// of [Marks]. They compile no driver but their own.
//
// # What is not guaranteed
//
//   - A fence knows of an owner once that one has shown its token. Before the follower's first call the old one passes.
//     A follower that must not be preceded any more shows its token before it reads.
//   - A key is what writers agree on. Who comes with another key, or with none, is not stopped.
//   - Marks are kept for ever. Where they are lost while the work is kept, an old token passes again.
package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
)

// Limits of a claim.
const (
	MaxKey = 512 // bytes of a key
	// MaxToken is the largest token, 2^53, as store.MaxRev is. Tokens follow a clock in milliseconds, so no owner ever
	// comes near it. A larger one is refused: its mark would keep all owners out for ever.
	MaxToken = 1 << 53
)

// Claim is what a caller shows: the key that it owns, and the token that it owns it under.
type Claim struct {
	Key    string // 1 to MaxKey bytes of UTF-8 without NUL; compared byte by byte
	Token  int64  // 1 to MaxToken
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
	case c.Token > MaxToken:
		return fmt.Errorf("%w: token %d of %s: must be at most %d", ErrInvalid, c.Token, c.Key, int64(MaxToken))
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
	// ErrFull says that a [Memory] knows as many keys as it may, and that this one is new to it. Nothing was done.
	ErrFull = errors.New("the fence is full")
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

// Memory is a fence in the memory of one process, which forgets its marks with it. It is right where the work is in
// that memory as well. The zero value is ready to use, and its methods may be called concurrently.
//
// Claims of a key wait for their turn in the order of their calls. Each key keeps some 200 bytes and its name for ever,
// since a mark that is forgotten lets an old token pass. So a Memory knows at most MaxKeys of them, and refuses the
// claims of further keys with [ErrFull].
type Memory struct {
	// MaxKeys is the largest number of keys; 0: [DefaultMaxKeys]. It is not changed after the first call.
	MaxKeys int

	mu   sync.Mutex
	keys map[string]*turns
}

// DefaultMaxKeys is the default of [Memory.MaxKeys]: at most some 700 MiB, with the longest names.
const DefaultMaxKeys = 1_000_000

// turns are those of one key. Memory.mu guards marks.
type turns struct {
	slots *semaphore.Weighted // one for each reader, all of it for a sole owner
	marks Marks
}

// allSlots leaves no reader beside a sole owner.
const allSlots = math.MaxInt64

// Do implements [Fence]. A token counts as seen also when work fails: what it has done by then stays. When ctx ends
// before its turn the error wraps its cause. It wraps [ErrFull] when there is no room for the key.
func (m *Memory) Do(ctx context.Context, c Claim, work func(ctx context.Context) error) error {
	if err := c.Validate(); err != nil {
		return err
	}
	key, err := m.turnsOf(c.Key)
	if err != nil {
		return err
	}
	slots := int64(allSlots)
	if c.Shared {
		slots = 1
	}
	if err := key.slots.Acquire(ctx, slots); err != nil {
		return fmt.Errorf("%s: wait for its turn: %w", c, context.Cause(ctx))
	}
	defer key.slots.Release(slots)
	if err := m.pass(key, c); err != nil {
		return err
	}
	return work(NewContext(ctx, c))
}

func (m *Memory) turnsOf(key string) (*turns, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.keys[key]; known != nil {
		return known, nil
	}
	if most := cmp.Or(m.MaxKeys, DefaultMaxKeys); len(m.keys) >= most {
		return nil, fmt.Errorf("%w: key %.40q is new, and MaxKeys is %d", ErrFull, key, most)
	}
	if m.keys == nil {
		m.keys = map[string]*turns{}
	}
	added := &turns{slots: semaphore.NewWeighted(allSlots)}
	m.keys[strings.Clone(key)] = added // not the request's whole header with it
	return added, nil
}

func (m *Memory) pass(key *turns, c Claim) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key.marks, err = key.marks.Pass(c)
	return err
}
