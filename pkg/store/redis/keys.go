package redis

import (
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// keyspace names the keys of a cluster. What stands in braces alone decides on which shard a key is.
type keyspace struct{ prefix string }

func newKeyspace(cluster string) keyspace { return keyspace{"shardctl:{" + cluster + "}:"} }

func (k keyspace) state() string { return k.prefix + "state" }
func (k keyspace) gate() string  { return k.prefix + "gate" }

// channel is where changes are published. Channels are those of a server, not of one of its databases.
func (k keyspace) channel(db int) string {
	if db == 0 {
		return k.prefix + "changes"
	}
	return k.prefix + "changes:" + strconv.Itoa(db)
}

// of are the keys of a kind, in the order that scripts expect.
func (k keyspace) of(kind store.Kind) []string {
	docs := k.prefix + kind.Info().Plural
	return []string{
		k.state(), k.gate(), docs, docs + ":ids", docs + ":groups", docs + ":revisions", docs + ":sessions",
		docs + ":expiry",
	}
}

// indexes are those that a kind has besides that on ids, a letter each.
func indexes(kind store.Kind) string {
	var letters strings.Builder
	for _, fields := range kind.Info().Indexes {
		switch {
		case fields[0] == store.FieldGroup && fields[1] == store.FieldID:
			letters.WriteByte('g')
		case fields[0] == store.FieldGroup && fields[1] == store.FieldRev:
			letters.WriteByte('r')
		case fields[0] == store.FieldSession:
			letters.WriteByte('s')
		case fields[0] == store.FieldExpires:
			letters.WriteByte('e')
		}
	}
	return letters.String()
}

// notified says in a word which changes of a kind are notified.
func notified(kind store.Kind) string {
	switch kind.Info().Notify {
	case store.NotifyAlways:
		return "always"
	case store.NotifyStates:
		return "states"
	case store.NotifyFree:
		return "free"
	case store.NotifyNever:
	}
	return "never"
}
