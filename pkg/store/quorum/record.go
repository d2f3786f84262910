package quorum

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

type (
	acceptor = ballot.Acceptor[ballot.Value]
	round    = ballot.Round[ballot.Value]
	memory   = ballot.Memory[ballot.Value]
	reading  = ballot.Reading[ballot.Value]
)

// key names a document.
type key struct {
	kind driver.Kind
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

// maxWriter bounds the session of a writer ID, in bytes: it shares a text of [driver.MaxText] with the ballots.
const maxWriter = 640

// headFields is how many there are in the text of a record's writer.
const headFields = 9

// topRev is the largest revision that records follow their documents to. Above it they count for themselves.
const topRev = driver.MaxRev - 1<<32

// deleted is the state, and who is next, of a tombstone: no document's, so that watchers are notified.
const deleted = "\x01deleted"

// document is the record as its server is to keep it, at a revision above the one that it has and above floor.
func (r record) document(k key, floor, nonce int64) driver.Doc {
	d := driver.Doc{Kind: k.kind, ID: k.id}
	v := r.Accepted.Value
	switch v.Is {
	case ballot.Live:
		d = v.Doc
		d.Kind, d.ID = k.kind, k.id
	case ballot.Deleted:
		d.State, d.Next, d.Expires = deleted, deleted, v.Doc.Expires
	case ballot.Absent:
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
	d.WriterID = driver.WriterID{Session: strings.Join(head, " "), Seq: nonce}
	return d
}

// parse is the record that a server's document holds.
func parse(d driver.Doc) (record, error) {
	head := strings.SplitN(d.WriterID.Session, " ", headFields)
	if len(head) != headFields {
		return record{}, fmt.Errorf("%s %.80q is no record of a quorum: something else writes to this server", d.Kind,
			d.ID)
	}
	r := record{rev: d.Rev, fresh: head[0] == "1"}
	var errs []error
	number := func(text string, base, bits int) int64 {
		n, err := strconv.ParseInt(text, base, bits)
		errs = append(errs, err)
		return n
	}
	parsed := func(text string) ballot.Ballot {
		b, err := ballotOf(text)
		errs = append(errs, err)
		return b
	}
	v := &r.Accepted.Value
	r.Floor, r.Promised, r.Accepted.Ballot = number(head[1], 36, 64), parsed(head[2]), parsed(head[3])
	is, rev, seq := number(head[4], 10, 8), number(head[5], 36, 64), number(head[6], 36, 64)
	if err := join(append(errs, marksOf(head[7], v.Before[:]))...); err != nil {
		return record{}, fmt.Errorf("%s %.80q is no record of a quorum: %w", d.Kind, d.ID, err)
	}
	v.Is = ballot.Is(is) //nolint:gosec // any other number than those of the states is none of them
	if v.Is == ballot.Live {
		v.Doc = d
	} else {
		v.Doc = driver.Doc{Kind: d.Kind, ID: d.ID, Expires: d.Expires}
	}
	v.Doc.Rev, v.Doc.WriterID = rev, driver.WriterID{Session: head[8], Seq: seq}
	if v.Is == ballot.Absent {
		v.Doc = driver.Doc{}
	}
	return r, nil
}

func ballotText(b ballot.Ballot) string {
	if b.Zero() {
		return "-"
	}
	return strconv.FormatInt(b.Counter, 36) + "." + base64.RawURLEncoding.EncodeToString(b.Proposer[:])
}

func ballotOf(text string) (b ballot.Ballot, err error) {
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
func marksText(marks []ballot.Mark) string {
	var texts []string
	for _, m := range marks {
		if m != 0 {
			texts = append(texts, strconv.FormatUint(uint64(m), 36))
		}
	}
	return strings.Join(texts, ",")
}

func marksOf(text string, marks []ballot.Mark) error {
	if text == "" {
		return nil
	}
	for i, one := range strings.Split(text, ",") {
		m, err := strconv.ParseUint(one, 36, 64)
		if err != nil || i >= len(marks) {
			return fmt.Errorf("marks %q: %w", text, join(err, errMarks))
		}
		marks[i] = ballot.Mark(m)
	}
	return nil
}

var (
	errMarks  = errors.New("want at most eight numbers")
	errBallot = errors.New("want COUNTER.NAME")
)
