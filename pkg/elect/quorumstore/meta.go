package quorumstore

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// reserved begins IDs that are no documents of the quorum.
const reserved = "\x01"

// metaID is the document that each server keeps beside those of each kind: the server's identity, and its floor. It is
// of the same kind, so that one request shows it with others. Where it is missing the server has lost its disk.
const metaID = reserved + "quorum"

// counterID is the document by which a server counts for itself.
func counterID(group string) string { return reserved + "+" + group }

// groupOf is the group of such a document.
func groupOf(id string) string { return strings.TrimPrefix(id, reserved+"+") }

// meta is the body of that document.
type meta struct {
	Layout      int    `json:"layout"`
	Cluster     string `json:"cluster"`
	Index       int    `json:"index"`
	Members     string `json:"members"`
	Incarnation string `json:"incarnation"`
	Confirmed   bool   `json:"confirmed"`
	Floor       int64  `json:"floor"`
}

// layout is the version of how records are written.
const layout = 1

func (m meta) identity() quorum.Identity {
	return quorum.Identity{
		Cluster: m.Cluster, Index: m.Index, Members: m.Members, Incarnation: m.Incarnation, Confirmed: m.Confirmed,
	}
}

func metaOf(i quorum.Identity) meta {
	return meta{
		Layout: layout, Cluster: i.Cluster, Index: i.Index, Members: i.Members, Incarnation: i.Incarnation,
		Confirmed: i.Confirmed,
	}
}

func (m meta) document(kind store.Kind, rev, nonce int64) store.Doc {
	body, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("quorumstore: an identity of texts and numbers is no JSON: %v", err)) // it always is
	}
	return store.Doc{
		Kind: kind, ID: metaID, Rev: rev, Body: body,
		WriterID: store.WriterID{Session: "quorum", Seq: nonce},
	}
}

func parseMeta(d store.Doc) (meta, error) {
	var m meta
	if err := json.Unmarshal(d.Body, &m); err != nil {
		return m, fmt.Errorf("the identity of the server is unreadable: %w", err)
	}
	return m, store.CheckSchema("the identity of the server", m.Layout, layout)
}
