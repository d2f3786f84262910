package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// ErrMoved says that no task may run on this store: its documents are at another one, or on their way to or from it.
var ErrMoved = errors.New("the cluster was moved")

// MoveID is the ID of the document that holds a [Move], of kind value. No key begins so.
const MoveID = "~store/move"

// moveGroup is the document's group. No group's name begins so.
const moveGroup = "~store"

// MoveState is how far a move is, on the side that the document is on.
type MoveState string

// The states of a move. The source goes from MoveLeaving to MoveLeft, the target from MoveArriving to MoveArrived.
// A move that was given up leaves MoveStays at the source and MoveAbandoned at the target.
const (
	MoveLeaving   MoveState = "leaving"
	MoveLeft      MoveState = "left"
	MoveArriving  MoveState = "arriving"
	MoveArrived   MoveState = "arrived"
	MoveStays     MoveState = "stays"
	MoveAbandoned MoveState = "abandoned"
)

// Move says that a cluster's documents are moved from one store to another, or were. There is at most one in a store,
// about the last move. It is written by those who move documents, and read by electors before a session's first claim.
type Move struct {
	ID    string    `json:"id"` // of the move: the same on both sides
	State MoveState `json:"state"`
	Other string    `json:"other"` // the URI of the store on the other side, without secrets
	At    int64     `json:"at"`    // the store's clock, Unix ms
	Rev   int64     `json:"-"`     // of the document; 0: there is none
}

// Doc is m as a document, to be written over the one at m.Rev. now is the store's clock.
func (m Move) Doc(id driver.WriterID, now int64) driver.Doc {
	m.At = now
	return driver.Doc{
		Kind: driver.KindValue, ID: MoveID, Group: moveGroup, Rev: protocol.NextRev(m.Rev, now), WriterID: id,
		Body: mustJSON(m),
	}
}

// ReadMove reads the store's move, linearizably; the zero Move when there is none. now is the store's clock.
func ReadMove(ctx context.Context, db driver.Store) (m Move, now int64, err error) {
	found, err := db.Read(ctx, driver.KindValue, MoveID)
	if err != nil || len(found.Docs) == 0 {
		return Move{}, found.Now, err
	}
	d := found.Docs[0]
	m, err = Guarded(d, func(d driver.Doc) (m Move, err error) { return m, decode(d, &m) })
	if err != nil {
		return Move{}, found.Now, fmt.Errorf(
			"%w: value %s cannot be read (%w): remove it if this store is the right one", ErrMoved, MoveID, err,
		)
	}
	m.Rev = d.Rev
	return m, found.Now, nil
}

// CheckMoved is nil when tasks may run on the store. Else the error wraps [ErrMoved] and says what to do, or it is that
// of the read.
func CheckMoved(ctx context.Context, db driver.Store) error {
	m, _, err := ReadMove(ctx, db)
	if err != nil {
		return err
	}
	return m.Err()
}

const goOn = "run `shardctl store copy` again with the same two URIs, or with --undo"

// Err is nil when tasks may run on the store that says so. Else it wraps [ErrMoved].
func (m Move) Err() error {
	at := time.UnixMilli(m.At).UTC().Format(time.RFC3339)
	switch m.State {
	case "", MoveArrived, MoveStays:
		return nil
	case MoveLeft:
		return fmt.Errorf("%w to %s at %s: name that store", ErrMoved, m.Other, at)
	case MoveLeaving:
		return fmt.Errorf(
			"%w: its copy to %s began at %s and has not ended: %s", ErrMoved, m.Other, at, goOn,
		)
	case MoveArriving:
		return fmt.Errorf(
			"%w: the copy from %s to here began at %s and has not ended: %s", ErrMoved, m.Other, at, goOn,
		)
	case MoveAbandoned:
		return fmt.Errorf(
			"%w: the copy from %s to here was given up at %s: name another store, or empty this one", ErrMoved,
			m.Other, at,
		)
	}
	return fmt.Errorf(
		"%w: value %s says %.80q, which this program does not know: upgrade it", ErrMoved, MoveID, string(m.State),
	)
}
