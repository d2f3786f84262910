package elect

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Save stores a value with the lock, for anyone who holds the key next: a checkpoint. It is refused with
// ErrLeaseLost when a holder with a larger token has saved before, and with ErrTooLarge beyond MaxValue. It
// outlives the lock's release.
func (l *Lease) Save(ctx context.Context, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf(
			"save value of %s: %d bytes: at most %d are allowed: %w", l.key, len(value), MaxValue, ErrTooLarge,
		)
	}
	token := l.Token()
	for {
		was, err := l.c.loadValue(ctx, l.key)
		if err != nil {
			return err
		}
		if was.Count > token || !l.Valid() {
			return fmt.Errorf("save value of %s: %w", l.key, ErrLeaseLost)
		}
		var id store.WriterID
		if err := l.c.box.ask(ctx, func() { id = l.keeper.writerID() }); err != nil {
			return err
		}
		doc := store.Doc{
			Kind: store.KindValue, ID: string(l.key), Group: l.key.Group(), Rev: was.Rev + 1, WriterID: id,
			Count: token, Body: value,
		}
		outs, err := l.c.store.Apply(ctx, store.Change{IfRev: was.Rev, Doc: doc})
		switch {
		case err != nil:
			return fmt.Errorf("save value of %s: %w", l.key, err)
		case outs[0].Status == store.Applied:
			return nil
		case outs[0].Status == store.Unknown:
			return fmt.Errorf("save value of %s: it may or may not be stored: %w", l.key, outs[0].Err)
		}
	}
}

// MaxValue is how many bytes a value may have. They are kept as they are.
const MaxValue = store.MaxBody

// Load returns the value that this holder or an earlier one saved, and the token it was saved under. They are nil and 0
// when there is none.
func (l *Lease) Load(ctx context.Context) (value []byte, token int64, err error) {
	was, err := l.c.loadValue(ctx, l.key)
	return was.Body, was.Count, err
}
