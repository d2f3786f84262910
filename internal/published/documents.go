// Package published keeps a list of a group in the store, which one replica writes and all read.
//
// The replica that writes holds a lock of the group, whose token its writes carry. A list is cut into chunks. The head
// has the revision of the list and a hash of each chunk. Chunks are written first and the head last, by
// compare-and-set. So a reader sees the whole of one list or of the next, and a writer that was overtaken publishes
// nothing.
//
// Heads and chunks are documents of kind value. Their IDs begin with a space such as "~discovery", as no key does:
//
//	SPACE/GROUP        the head
//	SPACE/GROUP/P-N    chunk N of a list whose revision has the parity P, 0 or 1
//
// A new list is written over the one before the last, so nothing has to be deleted. A reader that comes too late for a
// list finds chunks with other hashes, and reads the head again.
package published

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// MaxChunk is how many bytes of entries go into one chunk; a single larger one has a chunk of its own.
const MaxChunk = 48 << 10

// Place is where the list of a group stands. Its space is the group of its lock and of its documents, and no group's
// name.
type Place struct{ Space, Group string }

// Key is the lock under which the list is written.
func (p Place) Key() record.Key { return record.NewKey(p.Space, p.Group) }

func (p Place) String() string { return string(p.Key()) }

func (p Place) head() string { return string(p.Key()) }

func (p Place) chunk(revision int64, n int) string {
	return fmt.Sprintf("%s/%d-%d", p.head(), revision&1, n)
}

// MaxEntries is how many entries a list has at most: a head that says more was edited.
const MaxEntries = 1 << 18

// Part is what a list is made of: an entry, or what is said of the list. Cleaned is the part less what makes no sense in
// it, which c notes: anybody may have edited the documents.
type Part[T any] interface {
	Cleaned(c *record.Cleaner) T
}

// Head is the document that says which list counts. S is what is said with it.
type Head[S Part[S]] struct {
	Rev      int64 // of the document
	Token    int64 // of the lock under which it was written
	Revision int64 // of the list: rises with each change; 0: there is none
	Hash     string
	Status   S

	count  int
	chunks []string
}

type headBody[S Part[S]] struct {
	Revision int64    `json:"revision"`
	Count    int      `json:"count"`            // entries
	Hash     string   `json:"hash"`             // of Chunks
	Chunks   []string `json:"chunks,omitempty"` // a hash of each
	Status   S        `json:"status"`
}

// headFrom reads a head. With [ErrMalformed] it counts; only what is said with it is not all there.
func headFrom[S Part[S]](d driver.Doc) (Head[S], error) { return record.Guarded(d, readHeadFrom[S]) }

func readHeadFrom[S Part[S]](d driver.Doc) (Head[S], error) {
	h := Head[S]{Rev: d.Rev, Token: d.Count}
	var body headBody[S]
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return h, fmt.Errorf("%s %.80q: body: %w", d.Kind, d.ID, err)
	}
	var c record.Cleaner
	c.Number("revision", &body.Revision, driver.MaxRev)
	c.Count("count", &body.Count, MaxEntries)
	h.Revision, h.Hash, h.count, h.chunks = body.Revision, body.Hash, body.Count, body.Chunks
	if h.Hash != hashAll(h.chunks) {
		c.Bad("hash", "it is not that of the %d chunks", len(h.chunks))
	}
	if err := c.Err(d); err != nil {
		return h, err
	}
	h.Status = body.Status.Cleaned(&c)
	if err := c.Err(d); err != nil {
		return h, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return h, nil
}

func (h Head[S]) doc(at Place, id driver.WriterID) (driver.Doc, error) {
	body, err := json.Marshal(headBody[S]{
		Revision: h.Revision, Count: h.count, Hash: hashAll(h.chunks), Chunks: h.chunks, Status: h.Status,
	})
	if err != nil {
		return driver.Doc{}, fmt.Errorf("head of %s: %w", at, err)
	}
	return driver.Doc{
		Kind: driver.KindValue, ID: at.head(), Group: at.Space, Rev: h.Rev, WriterID: id, Count: h.Token, Body: body,
	}, nil
}

// chunksOf cuts a list into bodies of documents.
func chunksOf[E any](entries []E) (chunks [][]byte, err error) {
	var parts []json.RawMessage
	size := 0
	flush := func() error {
		if len(parts) == 0 {
			return nil
		}
		body, err := json.Marshal(parts)
		chunks = append(chunks, body)
		parts, size = nil, 0
		return err
	}
	for _, e := range entries {
		part, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if size+len(part) > MaxChunk {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		parts, size = append(parts, part), size+len(part)+1
	}
	return chunks, flush()
}

// ErrBroken says that a list cannot be read whole: documents of it are missing or were changed out of band.
var ErrBroken = errors.New("the published list is incomplete")

// ErrMalformed says that some entries of a list, or what is said of it, make no sense. They are left out, and the rest
// counts.
var ErrMalformed = errors.New("the published list is malformed in part")

// entriesFrom joins the chunks of a list, by their IDs. With ErrBroken the entries are those of the chunks that are
// whole, and with ErrMalformed those that make sense.
func entriesFrom[E Part[E], S Part[S]](at Place, h Head[S], bodies map[string]driver.Doc) ([]E, error) {
	entries := make([]E, 0, h.count)
	broken, there := 0, 0
	var malformed error
	for i, hash := range h.chunks {
		doc, ok := bodies[at.chunk(h.Revision, i)]
		if !ok || hashOf(doc.Body) != hash {
			broken++
			continue
		}
		part, n, err := readChunk[E](doc)
		malformed = errors.Join(malformed, err)
		entries, there = append(entries, part...), there+n
		if there > h.count {
			break
		}
	}
	switch {
	case broken > 0 || there != h.count:
		return entries, fmt.Errorf("%w: %d of its %d chunks are missing or changed, %d of %d entries are there",
			ErrBroken, broken, len(h.chunks), there, h.count)
	case malformed != nil:
		return entries, fmt.Errorf("%w: %d of %d entries are left out: %w", ErrMalformed, there-len(entries), there,
			malformed)
	}
	return entries, nil
}

// readChunk returns the entries that make sense, how many there are, and what is wrong with the first of the others.
func readChunk[E Part[E]](d driver.Doc) (entries []E, n int, wrong error) {
	var texts []json.RawMessage
	if err := json.Unmarshal(d.Body, &texts); err != nil {
		return nil, 0, fmt.Errorf("%s %.80q: body: %w", d.Kind, d.ID, err)
	}
	for i, text := range texts {
		d.Body = text
		e, err := record.Guarded(d, readEntry[E])
		switch {
		case err == nil:
			entries = append(entries, e)
		case wrong == nil:
			wrong = fmt.Errorf("entry %d of %w", i+1, err)
		}
	}
	return entries, len(texts), wrong
}

func readEntry[E Part[E]](d driver.Doc) (e E, err error) {
	var c record.Cleaner
	if err := json.Unmarshal(d.Body, &e); err != nil {
		c.Bad("body", "%w", err)
	} else {
		e = e.Cleaned(&c)
	}
	return e, c.Err(d)
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}

func hashAll(hashes []string) string { return hashOf([]byte(strings.Join(hashes, "\n"))) }

func hashesOf(chunks [][]byte) []string {
	hashes := make([]string, len(chunks))
	for i, body := range chunks {
		hashes[i] = hashOf(body)
	}
	return hashes
}
