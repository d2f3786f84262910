package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// maxChunk is how many bytes of entries go into one chunk; a single larger one has a chunk of its own.
const maxChunk = 48 << 10

// Key is the lock under which a group is looked at.
func Key(group string) record.Key { return record.NewKey(record.GroupDiscovery, group) }

func headID(group string) string { return record.GroupDiscovery + "/" + group }

func chunkID(group string, revision int64, n int) string {
	return fmt.Sprintf("%s/%d-%d", headID(group), revision&1, n)
}

// Status says how looking goes. Times are the store's clock in Unix ms.
type Status struct {
	Lister  string `json:"lister"`            // who is asked, as http
	By      string `json:"by"`                // the instance that looked last
	At      int64  `json:"at,omitempty"`      // when a look last succeeded; 0: never
	Found   int    `json:"found,omitempty"`   // how many that look found
	LeftOut int    `json:"leftOut,omitempty"` // of these, beyond the limit
	Error   string `json:"error,omitempty"`   // why the last look failed; empty: it succeeded
	Since   int64  `json:"since,omitempty"`   // when looks began to fail
}

// news says whether others should hear soon of what has changed since before.
func (s Status) news(before Status) bool {
	return s.Error != before.Error || s.LeftOut != before.LeftOut || s.At != 0 && before.At == 0
}

// head is the document that says which list counts.
type head struct {
	rev    int64
	token  int64 // of the lock under which it was written
	writer store.WriterID
	headBody
}

type headBody struct {
	Revision int64    `json:"revision"`         // of the list: rises with each change
	Count    int      `json:"count"`            // entries
	Hash     string   `json:"hash"`             // of Chunks
	Chunks   []string `json:"chunks,omitempty"` // a hash of each
	Status   Status   `json:"status"`
}

func headFrom(d store.Doc) (head, error) {
	h := head{rev: d.Rev, token: d.Count, writer: d.WriterID}
	if err := json.Unmarshal(d.Body, &h.headBody); err != nil {
		return h, fmt.Errorf("%s %.80q: body: %w", d.Kind, d.ID, err)
	}
	if h.Revision < 0 || h.Count < 0 || h.Hash != hashOf([]byte(strings.Join(h.Chunks, "\n"))) {
		return h, fmt.Errorf("%s %.80q: the revision, the count and the hash of its %d chunks do not go together",
			d.Kind, d.ID, len(h.Chunks))
	}
	return h, nil
}

func (h head) doc(group string, id store.WriterID) (store.Doc, error) {
	h.Hash = hashOf([]byte(strings.Join(h.Chunks, "\n")))
	body, err := json.Marshal(h.headBody)
	if err != nil {
		return store.Doc{}, fmt.Errorf("head of %s: %w", group, err)
	}
	return store.Doc{
		Kind: store.KindValue, ID: headID(group), Group: record.GroupDiscovery, Rev: h.rev, WriterID: id, Count: h.token,
		Body: body,
	}, nil
}

// chunksOf cuts a list into bodies of documents.
func chunksOf(entries []Entry) (chunks [][]byte, err error) {
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
		if size+len(part) > maxChunk {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		parts, size = append(parts, part), size+len(part)+1
	}
	return chunks, flush()
}

// errBroken says that a list cannot be read whole: documents of it are missing or were changed out of band.
var errBroken = errors.New("the published list is incomplete")

// entriesFrom joins the chunks of a list, by their IDs. With errBroken the entries are those of the chunks that are
// whole.
func entriesFrom(group string, h head, bodies map[string][]byte) ([]Entry, error) {
	entries := make([]Entry, 0, h.Count)
	broken := 0
	for i, hash := range h.Chunks {
		var part []Entry
		body, there := bodies[chunkID(group, h.Revision, i)]
		if !there || hashOf(body) != hash || json.Unmarshal(body, &part) != nil {
			broken++
			continue
		}
		entries = append(entries, part...)
	}
	if broken > 0 || len(entries) != h.Count {
		return entries, fmt.Errorf("%w: %d of its %d chunks are missing or changed, %d of %d entries are there",
			errBroken, broken, len(h.Chunks), len(entries), h.Count)
	}
	return entries, nil
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}

func hashesOf(chunks [][]byte) []string {
	hashes := make([]string, len(chunks))
	for i, body := range chunks {
		hashes[i] = hashOf(body)
	}
	return hashes
}
