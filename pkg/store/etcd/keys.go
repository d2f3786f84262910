package etcd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// keys names the keys of one cluster.
type keys struct{ root string } // PREFIX/CLUSTER/

func newKeys(prefix, cluster string) keys { return keys{prefix + "/" + cluster + "/"} }

func (k keys) schema() string { return k.root + ".schema" }
func (k keys) floor() string  { return k.root + ".floor" }
func (k keys) notes() string  { return k.root + ".note/" }

// note is one of the keys that changes overwrite to notify watchers.
func (k keys) note(slot int) string { return fmt.Sprintf("%s%03d", k.notes(), slot) }

func (k keys) docs(kind driver.Kind) string           { return k.root + string(kind) + "/" }
func (k keys) doc(kind driver.Kind, id string) string { return k.docs(kind) + id }

// id is the ID of a key of docs.
func (k keys) id(kind driver.Kind, key []byte) string { return string(key[len(k.docs(kind)):]) }

// Names of indexes. Their keys are the values they are sorted by, and the ID at the end. No text holds a NUL byte, so
// one ends each.
const (
	indexOwner   = "owner"   // whether it is suspended, session, ID
	indexRev     = "rev"     // group, rev, ID
	indexGroup   = "group"   // group, ID backwards; only where the ID does not begin with the group and a slash
	indexExpires = "expires" // expires, ID; only what expires
	indexLast    = "last"    // ID backwards
)

func (k keys) index(kind driver.Kind, name string) string {
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
func (k keys) entries(d *driver.Doc) (all []string) {
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
func (k keys) entry(d *driver.Doc, name string) (key string, ok bool) {
	info, rest := d.Kind.Info(), ""
	switch name {
	case indexOwner:
		rest, ok = class(d.Suspended)+d.Session+separator+d.ID, info.Indexed(driver.FieldSession)
	case indexRev:
		rest, ok = d.Group+separator+hex(d.Rev)+d.ID, hasIndex(info, driver.FieldGroup, driver.FieldRev)
	case indexGroup:
		rest = d.Group + separator + backwards(d.ID) + backwardsEnd
		ok = hasIndex(info, driver.FieldGroup, driver.FieldID) && d.Group != "" && !strings.HasPrefix(d.ID, d.Group+"/")
	case indexExpires:
		rest, ok = hex(d.Expires)+d.ID, info.Indexed(driver.FieldExpires) && d.Expires > 0
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
func hasIndex(info driver.KindInfo, fields ...driver.Field) bool {
	return slices.ContainsFunc(info.Indexes, func(of []driver.Field) bool { return slices.Equal(of, fields) })
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

// plan is where to look for the documents of a query.
type plan struct {
	index   string // its name; empty: the documents themselves
	spans   []span
	ordered bool  // the index is in the order that is asked for
	exact   bool  // the spans hold what matches and nothing else
	besides *plan // where the rest is
}

func (k keys) plan(kind driver.Kind, q driver.Query) plan {
	info := kind.Info()
	switch {
	case len(q.Sessions) > 0 && info.Indexed(driver.FieldSession):
		return plan{index: indexOwner, spans: k.owners(kind, q, oneOf(q.Sessions))}
	case len(q.Others) > 0 && info.Indexed(driver.FieldSession):
		return plan{index: indexOwner, spans: k.owners(kind, q, noneOf(q.Others))}
	case q.Expired > 0 && info.Indexed(driver.FieldExpires):
		at := k.index(kind, indexExpires)
		return plan{index: indexExpires, spans: []span{{from: at, to: at + hex(min(q.Expired, math.MaxInt64-1)+1)}}}
	case q.Group != "" && q.MinRev > 0 && hasIndex(info, driver.FieldGroup, driver.FieldRev):
		at := k.index(kind, indexRev) + q.Group
		return plan{index: indexRev, spans: []span{{from: at + separator + hex(q.MinRev), to: at + "\x01"}}}
	case q.Group != "" && hasIndex(info, driver.FieldGroup, driver.FieldID):
		return k.ofGroup(kind, q)
	case q.Reverse && q.Limit > 0:
		return k.last(kind, q)
	}
	all := k.ids(kind, q.From, q.To)
	q.From, q.To = "", ""
	return plan{spans: []span{all}, exact: dbstore.SelectsAll(q)}
}

// ofGroup looks where IDs begin with the group and a slash, and in the index for those that do not.
func (k keys) ofGroup(kind driver.Kind, q driver.Query) plan {
	at := k.index(kind, indexGroup) + q.Group
	rest := plan{
		index: indexGroup, spans: []span{{from: at + separator, to: at + "\x01"}}, ordered: q.Reverse && q.Limit > 0,
	}
	if rest.ordered {
		rest.spans = []span{between(at+separator, q)}
	}
	begin, end := q.Group+"/", q.Group+"0" // 0 comes after the slash
	if q.From < begin {
		q.From = begin
	}
	if q.To == "" || q.To > end {
		q.To = end
	}
	if q.From >= q.To {
		return rest
	}
	if q.Reverse && q.Limit > 0 {
		p := k.last(kind, q)
		p.besides = &rest
		return p
	}
	return plan{spans: []span{k.ids(kind, q.From, q.To)}, besides: &rest}
}

// last looks from the end on. etcd itself would read and sort all to find the last.
func (k keys) last(kind driver.Kind, q driver.Query) plan {
	return plan{index: indexLast, spans: []span{between(k.index(kind, indexLast), q)}, ordered: true}
}

// between is the part of a backwards index that holds the IDs from q.From on and before q.To.
func between(index string, q driver.Query) span {
	s := span{from: index, to: index + backwardsEnd}
	if q.To != "" {
		s.from = index + backwards(q.To) + backwardsEnd + "\x00" // after the entry of q.To itself
	}
	if q.From != "" {
		s.to = index + backwards(q.From) + backwardsEnd + "\x00"
	}
	return s
}

// ids are the documents with IDs from one on and before the other; empty: all.
func (k keys) ids(kind driver.Kind, from, to string) span {
	docs := k.docs(kind)
	s := span{from: docs + from, to: strings.TrimSuffix(docs, "/") + "0"}
	if to != "" {
		s.to = docs + to
	}
	return s
}

// owners are the parts of the index of owners that hold the sessions between bounds.
func (k keys) owners(kind driver.Kind, q driver.Query, bounds [][2]string) []span {
	classes := []bool{false}
	if !q.Unsuspended {
		classes = append(classes, true)
	}
	var all []span
	for _, suspended := range classes {
		at := k.index(kind, indexOwner) + class(suspended)
		for _, b := range bounds {
			s := span{from: at + b[0], to: at + b[1]}
			if b[1] == "" {
				s.to = k.index(kind, indexOwner) + class(suspended) + backwardsEnd
			}
			all = append(all, s)
		}
	}
	return all
}

// oneOf are the bounds of sessions that are one of these.
func oneOf(sessions []string) [][2]string {
	var all [][2]string
	for _, s := range slices.Compact(slices.Sorted(slices.Values(sessions))) {
		all = append(all, [2]string{s + separator, s + "\x01"})
	}
	return all
}

// noneOf are the bounds of sessions that are none of these: what is between them, in order.
func noneOf(sessions []string) [][2]string {
	var all [][2]string
	from := ""
	for _, s := range slices.Compact(slices.Sorted(slices.Values(sessions))) {
		if s != "" {
			all = append(all, [2]string{from, s + separator})
		}
		from = s + "\x01"
	}
	return append(all, [2]string{from, ""})
}
