package etcd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// keys names the keys of one cluster.
type keys struct{ root string } // PREFIX/CLUSTER/

func newKeys(prefix, cluster string) keys { return keys{prefix + "/" + cluster + "/"} }

func (k keys) schema() string { return k.root + ".schema" }
func (k keys) floor() string  { return k.root + ".floor" }
func (k keys) notes() string  { return k.root + ".note/" }

// note is one of the keys that changes overwrite to notify watchers.
func (k keys) note(slot int) string { return fmt.Sprintf("%s%03d", k.notes(), slot) }

func (k keys) docs(kind store.Kind) string           { return k.root + string(kind) + "/" }
func (k keys) doc(kind store.Kind, id string) string { return k.docs(kind) + id }

// id is the ID of a key of docs.
func (k keys) id(kind store.Kind, key []byte) string { return string(key[len(k.docs(kind)):]) }

// Names of indexes. Their keys are the values they are sorted by, and the ID at the end. No text holds a NUL byte, so
// one ends each.
const (
	indexOwner   = "owner"   // whether it is suspended, session, ID
	indexRev     = "rev"     // group, rev, ID
	indexGroup   = "group"   // group, ID backwards; only where the ID does not begin with the group and a slash
	indexExpires = "expires" // expires, ID; only what expires
	indexLast    = "last"    // ID backwards
)

func (k keys) index(kind store.Kind, name string) string {
	return k.root + ".index/" + string(kind) + "/" + name + "/"
}

const (
	hexDigits = 16
	separator = "\x00"
)

func hex(n int64) string {
	text := strconv.FormatInt(n, 16)
	return strings.Repeat("0", hexDigits-len(text)) + text
}

// backwards is a text whose order is the reverse of an ID's. It is its own inverse, but for the end.
func backwards(id string) string {
	flipped := []byte(id)
	for i := range flipped {
		flipped[i] = ^flipped[i]
	}
	return string(flipped)
}

// backwardsEnd ends a backwards text: what begins like another text comes before it. No ID has a NUL byte.
const backwardsEnd = "\xff"

// entries are the keys of the indexes that a document is in; none for nil.
func (k keys) entries(d *store.Doc) (all []string) {
	if d == nil {
		return nil
	}
	for _, name := range [...]string{indexLast, indexOwner, indexRev, indexGroup, indexExpires} {
		if key, ok := k.entry(d, name); ok {
			all = append(all, key)
		}
	}
	return all
}

// entry is the key of a document in one index. ok is false where it is not in it.
func (k keys) entry(d *store.Doc, name string) (key string, ok bool) {
	info, rest := d.Kind.Info(), ""
	switch name {
	case indexOwner:
		rest, ok = class(d.Suspended)+d.Session+separator+d.ID, info.Indexed(store.FieldSession)
	case indexRev:
		rest, ok = d.Group+separator+hex(d.Rev)+d.ID, hasIndex(info, store.FieldGroup, store.FieldRev)
	case indexGroup:
		rest = d.Group + separator + backwards(d.ID) + backwardsEnd
		ok = hasIndex(info, store.FieldGroup, store.FieldID) && d.Group != "" && !strings.HasPrefix(d.ID, d.Group+"/")
	case indexExpires:
		rest, ok = hex(d.Expires)+d.ID, info.Indexed(store.FieldExpires) && d.Expires > 0
	case indexLast:
		rest, ok = backwards(d.ID)+backwardsEnd, true
	}
	if !ok {
		return "", false
	}
	return k.index(d.Kind, name) + rest, true
}

// class is how the index of owners distinguishes suspended locks.
func class(suspended bool) string {
	if suspended {
		return "1"
	}
	return "0"
}

// hasIndex says whether a kind has an index on exactly these fields.
func hasIndex(info store.KindInfo, fields ...store.Field) bool {
	return slices.ContainsFunc(info.Indexes, func(of []store.Field) bool { return slices.Equal(of, fields) })
}

// entryID is the ID at the end of an index's key, whose beginning is cut off.
func entryID(name, rest string) string {
	switch name {
	case indexOwner:
		_, id, _ := strings.Cut(rest, separator)
		return id
	case indexRev:
		_, id, _ := strings.Cut(rest, separator)
		return id[min(hexDigits, len(id)):]
	case indexGroup:
		_, id, _ := strings.Cut(rest, separator)
		return backwards(strings.TrimSuffix(id, backwardsEnd))
	case indexExpires:
		return rest[min(hexDigits, len(rest)):]
	default:
		return backwards(strings.TrimSuffix(rest, backwardsEnd))
	}
}
