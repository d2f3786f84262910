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

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
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

// Head is the document that says which list counts. S is what is said with it.
type Head[S any] struct {
	Rev      int64 // of the document
	Token    int64 // of the lock under which it was written
	Revision int64 // of the list: rises with each change; 0: there is none
	Hash     string
	Status   S

	count  int
	chunks []string
}

type headBody[S any] struct {
	Revision int64    `json:"revision"`
	Count    int      `json:"count"`            // entries
	Hash     string   `json:"hash"`             // of Chunks
	Chunks   []string `json:"chunks,omitempty"` // a hash of each
	Status   S        `json:"status"`
}

func headFrom[S any](d store.Doc) (Head[S], error) {
	h := Head[S]{Rev: d.Rev, Token: d.Count}
	var body headBody[S]
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return h, fmt.Errorf("%s %.80q: body: %w", d.Kind, d.ID, err)
	}
	h.Revision, h.Hash, h.Status, h.count, h.chunks = body.Revision, body.Hash, body.Status, body.Count, body.Chunks
	if h.Revision < 0 || h.count < 0 || h.Hash != hashAll(h.chunks) {
		return h, fmt.Errorf("%s %.80q: the revision, the count and the hash of its %d chunks do not go together",
			d.Kind, d.ID, len(h.chunks))
	}
	return h, nil
}

func (h Head[S]) doc(at Place, id store.WriterID) (store.Doc, error) {
	body, err := json.Marshal(headBody[S]{
		Revision: h.Revision, Count: h.count, Hash: hashAll(h.chunks), Chunks: h.chunks, Status: h.Status,
	})
	if err != nil {
		return store.Doc{}, fmt.Errorf("head of %s: %w", at, err)
	}
	return store.Doc{
		Kind: store.KindValue, ID: at.head(), Group: at.Space, Rev: h.Rev, WriterID: id, Count: h.Token, Body: body,
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

// entriesFrom joins the chunks of a list, by their IDs. With ErrBroken the entries are those of the chunks that are
// whole.
func entriesFrom[E, S any](at Place, h Head[S], bodies map[string][]byte) ([]E, error) {
	entries := make([]E, 0, h.count)
	broken := 0
	for i, hash := range h.chunks {
		var part []E
		body, there := bodies[at.chunk(h.Revision, i)]
		if !there || hashOf(body) != hash || json.Unmarshal(body, &part) != nil {
			broken++
			continue
		}
		entries = append(entries, part...)
	}
	if broken > 0 || len(entries) != h.count {
		return entries, fmt.Errorf("%w: %d of its %d chunks are missing or changed, %d of %d entries are there",
			ErrBroken, broken, len(h.chunks), len(entries), h.count)
	}
	return entries, nil
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
