package elect

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// valueBody is a checkpoint with the token that wrote it.
type valueBody struct {
	Token int64  `json:"token"`
	Value []byte `json:"value"`
}

// Save stores a value with the lock, for whoever holds the key next: a checkpoint. It is refused with ErrLeaseLost when a
// holder with a larger token has saved before, and with ErrTooLarge beyond 48 KiB. It outlives the lock's release.
func (l *Lease) Save(ctx context.Context, value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("save value of %s: %d bytes: at most %d are allowed: %w", l.key, len(value), maxValue, ErrTooLarge)
	}
	token := l.Token()
	for {
		was, rev, err := l.e.loadValue(ctx, l.key)
		if err != nil {
			return err
		}
		if was.Token > token || !l.Valid() {
			return fmt.Errorf("save value of %s: %w", l.key, ErrLeaseLost)
		}
		var stamp store.WriterID
		if err := l.e.ask(ctx, func() { stamp = l.e.loop.session.stamp() }); err != nil {
			return err
		}
		body, err := json.Marshal(valueBody{Token: token, Value: value})
		if err != nil {
			return err
		}
		doc := store.Doc{
			Kind: store.KindValue, ID: string(l.key), Group: l.key.Group(), Rev: rev + 1, WriterID: stamp,
			Body: body,
		}
		outs, err := l.e.store.Apply(ctx, store.Change{IfRev: rev, Doc: doc})
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

// maxValue keeps a value, which JSON stores as base64, below MaxBody.
const maxValue = 48 << 10

// Load returns the value that this holder or an earlier one saved, and the token it was saved under; nil and 0 when
// there is none.
func (l *Lease) Load(ctx context.Context) (value []byte, token int64, err error) {
	body, _, err := l.e.loadValue(ctx, l.key)
	return body.Value, body.Token, err
}

func (e *Elector) loadValue(ctx context.Context, key Key) (valueBody, int64, error) {
	var body valueBody
	res, err := e.store.Read(ctx, store.KindValue, string(key))
	if err != nil || len(res.Docs) == 0 {
		return body, 0, err
	}
	if err := json.Unmarshal(res.Docs[0].Body, &body); err != nil {
		return body, res.Docs[0].Rev, nil //nolint:nilerr // written by hand to nonsense: as if nothing had been saved
	}
	return body, res.Docs[0].Rev, nil
}
