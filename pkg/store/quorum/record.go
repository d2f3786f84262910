package quorum

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

type (
	acceptor = quorum.Acceptor[quorum.Value]
	round    = quorum.Round[quorum.Value]
	memory   = quorum.Memory[quorum.Value]
	reading  = quorum.Reading[quorum.Value]
)

// key names a document.
type key struct {
	kind store.Kind
	id   string
}

// record is an acceptor as a server keeps it: a document of the same kind and ID. Its fields are those of the accepted
// document, so that the server's indexes and notifications serve. Ballots are in the writer's text, and the rest of the
// document's head with them.
type record struct {
	acceptor

	rev   int64 // of the server's document; 0: it has none
	fresh bool  // made by somebody who has not set its floor yet
}

// maxWriter bounds the session of a writer ID, in bytes: it shares a text of [store.MaxText] with the ballots.
const maxWriter = 640

// headFields is how many there are in the text of a record's writer.
const headFields = 9

// topRev is the largest revision that records follow their documents to. Above it they count for themselves.
const topRev = store.MaxRev - 1<<32

// deleted is the state, and who is next, of a tombstone: no document's, so that watchers are notified.
const deleted = "\x01deleted"

// document is the record as its server is to keep it, at a revision above the one that it has and above floor.
func (r record) document(k key, floor, nonce int64) store.Doc {
	d := store.Doc{Kind: k.kind, ID: k.id}
	v := r.Accepted.Value
	switch v.Is {
	case quorum.Live:
		d = v.Doc
		d.Kind, d.ID = k.kind, k.id
	case quorum.Deleted:
		d.State, d.Next, d.Expires = deleted, deleted, v.Doc.Expires
	case quorum.Absent:
	}
	d.Rev = max(r.rev+1, min(max(v.Doc.Rev, floor), topRev))
	state := "0"
	if r.fresh {
		state = "1"
	}
	head := []string{
		state, strconv.FormatInt(r.Floor, 36), ballotText(r.Promised), ballotText(r.Accepted.Ballot),
		strconv.Itoa(int(v.Is)), strconv.FormatInt(v.Doc.Rev, 36), strconv.FormatInt(v.Doc.WriterID.Seq, 36),
		marksText(v.Before[:]), v.Doc.WriterID.Session,
	}
	d.WriterID = store.WriterID{Session: strings.Join(head, " "), Seq: nonce}
	return d
}

// parse is the record that a server's document holds.
func parse(d store.Doc) (record, error) {
	head := strings.SplitN(d.WriterID.Session, " ", headFields)
	if len(head) != headFields {
		return record{}, fmt.Errorf("%s %.80q is no record of a quorum: something else writes to this server", d.Kind,
			d.ID)
	}
	r := record{rev: d.Rev, fresh: head[0] == "1"}
	var errs [7]error
	var is uint64
	v := &r.Accepted.Value
	r.Floor, errs[0] = strconv.ParseInt(head[1], 36, 64)
	r.Promised, errs[1] = ballotOf(head[2])
	r.Accepted.Ballot, errs[2] = ballotOf(head[3])
	is, errs[3] = strconv.ParseUint(head[4], 10, 8)
	rev, err := strconv.ParseInt(head[5], 36, 64)
	errs[4] = err
	seq, err := strconv.ParseInt(head[6], 36, 64)
	errs[5] = err
	errs[6] = marksOf(head[7], v.Before[:])
	if err := join(errs[:]...); err != nil {
		return record{}, fmt.Errorf("%s %.80q is no record of a quorum: %w", d.Kind, d.ID, err)
	}
	v.Is = quorum.Is(is)
	if v.Is == quorum.Live {
		v.Doc = d
	} else {
		v.Doc = store.Doc{Kind: d.Kind, ID: d.ID, Expires: d.Expires}
	}
	v.Doc.Rev, v.Doc.WriterID = rev, store.WriterID{Session: head[8], Seq: seq}
	if v.Is == quorum.Absent {
		v.Doc = store.Doc{}
	}
	return r, nil
}

func ballotText(b quorum.Ballot) string {
	if b.Zero() {
		return "-"
	}
	return strconv.FormatInt(b.Counter, 36) + "." + base64.RawURLEncoding.EncodeToString(b.Proposer[:])
}

func ballotOf(text string) (b quorum.Ballot, err error) {
	if text == "-" {
		return b, nil
	}
	counter, name, found := strings.Cut(text, ".")
	if b.Counter, err = strconv.ParseInt(counter, 36, 64); err != nil || !found {
		return b, fmt.Errorf("ballot %q: %w", text, join(err, errBallot))
	}
	raw, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || len(raw) != len(b.Proposer) {
		return b, fmt.Errorf("ballot %q: %w", text, join(err, errBallot))
	}
	copy(b.Proposer[:], raw)
	return b, nil
}

// marksText is marks in their order, without those at the end that are none.
func marksText(marks []quorum.Mark) string {
	var texts []string
	for _, m := range marks {
		if m != 0 {
			texts = append(texts, strconv.FormatUint(uint64(m), 36))
		}
	}
	return strings.Join(texts, ",")
}

func marksOf(text string, marks []quorum.Mark) error {
	if text == "" {
		return nil
	}
	for i, one := range strings.Split(text, ",") {
		m, err := strconv.ParseUint(one, 36, 64)
		if err != nil || i >= len(marks) {
			return fmt.Errorf("marks %q: %w", text, join(err, errMarks))
		}
		marks[i] = quorum.Mark(m)
	}
	return nil
}

var errMarks = errors.New("want at most eight numbers")

var errBallot = errors.New("want COUNTER.NAME")

// tombstoneKept is how long a tombstone stands at least. A write that was not answered for so long is not repeated.
const tombstoneKept = time.Hour

// Tombstones are looked for by every replica at this interval, up to twice as long.
const removeEvery = 10 * time.Minute

// maxRemoved is how many tombstones of a kind are removed at once.
const maxRemoved = 100

// removeRegularly removes tombstones until ctx ends. What fails is tried the next time.
func (s *Store) removeRegularly(ctx context.Context) {
	for sleep.For(ctx, removeEvery+rand.N(removeEvery)) == nil { //nolint:gosec // no secret
		for _, kind := range store.Kinds() {
			if _, err := s.removeTombstones(ctx, kind); err != nil {
				s.log.V(1).Info("Tombstones stay", "document", string(kind), "error", err.Error())
			}
		}
	}
}

// removeTombstones removes those of a kind that have expired, where all servers hold them.
func (s *Store) removeTombstones(ctx context.Context, kind store.Kind) (removed int, err error) {
	ctx, release := s.life.Bound(ctx)
	defer release()
	if err := s.view(kind).read(ctx, nil); err != nil { // for the time
		return 0, err
	}
	own := s.servers[rand.IntN(len(s.servers))] //nolint:gosec // no secret
	client, _, err := own.serving()
	if err != nil {
		return 0, err
	}
	expired := store.Query{Expired: s.now(nil), States: []string{deleted}, Limit: maxRemoved, NoBody: true}
	found, err := client.List(ctx, kind, expired)
	if err != nil || len(found.Docs) == 0 {
		return 0, err
	}
	ids := make([]string, len(found.Docs))
	for i, d := range found.Docs {
		ids[i] = d.ID
	}
	seen := make([]snapshot, len(s.servers))
	for i, at := range s.servers { // all of them: with a majority the record of another could come back to life
		if seen[i], err = at.look(ctx, kind, ids); err != nil {
			return 0, fmt.Errorf("server %d: %w", i+1, err)
		}
	}
	removable, floor := removable(ids, seen, expired.Expired)
	if len(removable) < len(ids) { // some server is behind, or an earlier removal was cut off: the next time they agree
		differ := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(removable, id) })
		if err := s.view(kind).settle(ctx, differ); err != nil {
			return 0, err
		}
	}
	if len(removable) == 0 {
		return 0, nil
	}
	for i, at := range s.servers {
		if err := at.raiseFloor(ctx, kind, floor, s.nonce); err != nil {
			return 0, fmt.Errorf("server %d: %w", i+1, err)
		}
	}
	var errs []error
	for i, at := range s.servers {
		errs = append(errs, at.drop(ctx, kind, removable, seen[i], s.nonce))
	}
	return len(removable), join(errs...)
}

// removable are the tombstones that all servers show alike, and the floor that has to be raised before.
func removable(ids []string, seen []snapshot, now int64) (all []string, floor int64) {
	for _, id := range ids {
		r := quorum.Remove[quorum.Value](len(seen))
		for i := range seen {
			one := seen[i].records[id]
			v := one.Accepted.Value
			r.Shown(i, one.acceptor, v.Is == quorum.Deleted && v.Doc.Expires <= now)
		}
		if f, ok := r.Floor(); ok {
			all, floor = append(all, id), max(floor, f)
		}
	}
	return all, floor
}

// raiseFloor makes a server refuse ballots up to floor for documents of which it keeps nothing.
func (s *server) raiseFloor(ctx context.Context, kind store.Kind, floor int64, nonce func() int64) error {
	for range maxTries {
		client, _, err := s.serving()
		if err != nil {
			return err
		}
		seen, err := s.look(ctx, kind, nil)
		if err != nil || seen.meta.Floor >= floor {
			return err
		}
		m, rev := seen.meta, seen.Docs[0].Rev // nothing else was asked for
		m.Floor = floor
		outs, err := client.Apply(ctx, store.Change{IfRev: rev, Doc: m.document(kind, rev+1, nonce())})
		switch {
		case err != nil:
			return err
		case outs[0].Status == store.Unknown:
			return outs[0].Err
		}
	}
	return errFought
}

// drop deletes records that are still as they were shown.
func (s *server) drop(
	ctx context.Context, kind store.Kind, ids []string, seen snapshot, nonce func() int64,
) error {
	client, _, err := s.serving()
	if err != nil {
		return err
	}
	changes := make([]store.Change, len(ids))
	for i, id := range ids {
		changes[i] = store.Change{Op: store.Delete, IfRev: seen.records[id].rev, Doc: store.Doc{
			Kind: kind, ID: id, WriterID: store.WriterID{Session: "quorum", Seq: nonce()},
		}}
		s.forget(key{kind, id})
	}
	_, err = client.Apply(ctx, changes...)
	return err
}
