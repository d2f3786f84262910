package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// reserved begins IDs that are no documents of the quorum.
const reserved = "\x01"

// metaID is the document that each server keeps beside those of each kind: the server's identity, and its floor. It is
// of the same kind, so that one request shows it with others. Where it is missing the server has lost its disk.
const metaID = reserved + "quorum"

func isReserved(id string) bool { return strings.HasPrefix(id, reserved) }

// counterID is the document by which a server counts for itself.
func counterID(group string) string { return reserved + "+" + group }

// groupOf is the group of such a document.
func groupOf(id string) string { return strings.TrimPrefix(id, reserved+"+") }

// meta is the body of that document.
type meta struct {
	ballot.Identity

	Layout int   `json:"layout"`
	Floor  int64 `json:"floor"`
	Base   int64 `json:"base,omitempty"` // below the revisions of new records
}

// layout is the version of how records are written.
const layout = 1

func (m meta) document(kind driver.Kind, rev, nonce int64) driver.Doc {
	body, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("quorum: an identity of texts and numbers is no JSON: %v", err)) // it always is
	}
	return driver.Doc{
		Kind: kind, ID: metaID, Rev: rev, Body: body,
		WriterID: driver.WriterID{Session: "quorum", Seq: nonce},
	}
}

func parseMeta(d driver.Doc) (meta, error) {
	var m meta
	if err := json.Unmarshal(d.Body, &m); err != nil {
		return m, fmt.Errorf("the identity of the server is unreadable: %w", err)
	}
	return m, driver.CheckSchema("the identity of the server", m.Layout, layout)
}

// readIdentity reads what a server says of itself, and the lineage of its store; nil where one kind's document is
// missing. It is confirmed where all kinds' are, by one writer.
func readIdentity(ctx context.Context, s driver.Store) (first *ballot.Identity, lineage string, err error) {
	whole := true
	for _, kind := range driver.Kinds() {
		m, reply, err := readMeta(ctx, s, kind)
		if err != nil {
			return nil, "", err
		}
		if lineage = reply.Lineage; len(reply.Docs) == 0 {
			whole = false
			continue
		}
		id := m.Identity
		if first == nil {
			first = &id
		}
		first.Confirmed = first.Confirmed && id == *first
	}
	if !whole {
		return nil, lineage, nil
	}
	return first, lineage, nil
}

// reserve writes an identity that is not confirmed yet. From the first kind's document on, no one else can confirm it.
// It replaces none that counts, unless a part of that is missing.
func reserve(ctx context.Context, s driver.Store, id ballot.Identity, nonce func() int64) error {
	before, _, err := readMeta(ctx, s, driver.Kinds()[0])
	if err != nil {
		return err
	}
	if found, _, err := readIdentity(ctx, s); err != nil || found != nil && found.Confirmed {
		return join(err, errReserved)
	}
	for i, kind := range driver.Kinds() {
		err := changeMeta(ctx, s, kind, nonce, func(was meta) (meta, error) {
			if i == 0 && was != before || id.Turn > 0 && was.Turn >= id.Turn { // it may count by now
				return was, errReserved
			}
			return meta{Identity: id, Layout: layout, Floor: was.Floor, Base: was.Base}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// confirm has a server count, which this very identity has reserved. The first kind's document is the last: until then
// it does not count.
func confirm(ctx context.Context, s driver.Store, id ballot.Identity, nonce func() int64) error {
	return changeReserved(ctx, s, id, nonce, func(m *meta) { m.Confirmed = true })
}

// changeReserved changes what a server keeps beside all kinds, as long as this identity has reserved it.
func changeReserved(
	ctx context.Context, s driver.Store, id ballot.Identity, nonce func() int64, change func(*meta),
) error {
	for _, kind := range slices.Backward(driver.Kinds()) {
		err := changeMeta(ctx, s, kind, nonce, func(m meta) (meta, error) {
			was := m.Identity
			if was.Confirmed = id.Confirmed; was != id { // an earlier try may have confirmed some kinds
				return m, errReserved
			}
			change(&m)
			return m, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var errReserved = fmt.Errorf("%w: somebody else has set the server up, or its disk was lost since",
	driver.ErrUnavailable)

// readMeta reads what a server keeps beside one kind: zero where there is none.
func readMeta(ctx context.Context, s driver.Store, kind driver.Kind) (m meta, reply driver.Reply, err error) {
	reply, err = s.Read(ctx, kind, metaID)
	if err == nil && len(reply.Docs) > 0 {
		m, err = parseMeta(reply.Docs[0])
	}
	return m, reply, err
}

// changeMeta changes what a server keeps beside one kind, unless somebody else does at the same time.
func changeMeta(
	ctx context.Context, s driver.Store, kind driver.Kind, nonce func() int64, change func(was meta) (meta, error),
) error {
	was, reply, err := readMeta(ctx, s, kind)
	if err != nil {
		return err
	}
	next, err := change(was)
	if err != nil || next == was {
		return err
	}
	var rev int64
	if len(reply.Docs) > 0 {
		rev = reply.Docs[0].Rev
	}
	return written(s.Apply(ctx, driver.Change{IfRev: rev, Doc: next.document(kind, max(reply.Floor, rev+1), nonce())}))
}

// written is nil where all changes were applied.
func written(outs []driver.Outcome, err error) error {
	for _, out := range outs {
		if out.Status != driver.Applied {
			err = join(err, out.Err, errFought)
		}
	}
	return err
}
