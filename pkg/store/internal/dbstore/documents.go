package dbstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// text is a document as databases of keys and values keep it. Kind and ID are the key's. The names are those of the
// other stores.
type text struct {
	Rev       int64  `json:"rev"`
	Writer    writer `json:"writer"`
	Group     string `json:"group,omitempty"`
	Session   string `json:"session,omitempty"`
	Next      string `json:"next,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	State     string `json:"state,omitempty"`
	Count     int64  `json:"count,omitempty"`
	Expires   int64  `json:"expires,omitempty"`
	Body      string `json:"body,omitempty"`
	Binary    []byte `json:"binary,omitempty"` // in the place of Body where that is no text
}

type writer struct {
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
}

// Encode is a document as JSON, without its kind and its ID, which its key names.
func Encode(d driver.Doc) []byte {
	t := text{
		Rev: d.Rev, Writer: writer(d.WriterID), Group: d.Group, Session: d.Session, Next: d.Next,
		Suspended: d.Suspended, State: d.State, Count: d.Count, Expires: d.Expires,
	}
	if utf8.Valid(d.Body) {
		t.Body = string(d.Body)
	} else {
		t.Binary = d.Body
	}
	data, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("dbstore: a document of texts and numbers is no JSON: %v", err)) // it always is
	}
	return data
}

// Decode is the reverse of Encode. What it cannot read, or what is no document by [driver.CheckFound], was written out
// of band: the error says why. The document has kind and ID in any case.
func Decode(kind driver.Kind, id string, data []byte) (driver.Doc, error) {
	d := driver.Doc{Kind: kind, ID: id}
	var t text
	if err := json.Unmarshal(data, &t); err != nil {
		return d, fmt.Errorf("not JSON of a document: %w", err)
	}
	if t.Body != "" && len(t.Binary) > 0 {
		return d, errors.New("body and binary: only one of them may be there")
	}
	d.Rev, d.WriterID, d.Group, d.Session, d.Next = t.Rev, driver.WriterID(t.Writer), t.Group, t.Session, t.Next
	d.Suspended, d.State, d.Count, d.Expires = t.Suspended, t.State, t.Count, t.Expires
	switch {
	case t.Body != "":
		d.Body = []byte(t.Body)
	case len(t.Binary) > 0:
		d.Body = t.Binary
	}
	return d, driver.CheckFound(d)
}

// Incremented is the counter that an [driver.Increment] of named makes of old; nil: the first. One that was edited out
// of band, so that it cannot be raised, goes on at floor, which no one knows it at.
func Incremented(named driver.Doc, old *driver.Doc, floor int64) driver.Doc {
	d := driver.Doc{Kind: named.Kind, ID: named.ID}
	if old != nil {
		d = *old
	}
	if d.Rev >= driver.MaxRev || d.Count < 0 || d.Count >= driver.MaxRev {
		d.Rev, d.Count = floor, floor
	}
	d.Rev, d.Count, d.WriterID = max(d.Rev+1, named.Rev), d.Count+1, driver.WriterID{}
	return d
}

// Matches says whether a query selects a document. Its order and its limit do not count.
func Matches(d *driver.Doc, q driver.Query) bool {
	return (q.Group == "" || d.Group == q.Group) &&
		(len(q.Sessions) == 0 || slices.Contains(q.Sessions, d.Session)) &&
		(len(q.Others) == 0 || !slices.Contains(q.Others, d.Session)) &&
		(len(q.States) == 0 || slices.Contains(q.States, d.State)) &&
		d.Rev >= q.MinRev && (!q.Unsuspended || !d.Suspended) &&
		(q.Expired == 0 || d.Expires > 0 && d.Expires <= q.Expired) &&
		d.ID >= q.From && (q.To == "" || d.ID < q.To)
}

// SelectsAll says whether a query has no condition. Its order and its limit do not count.
func SelectsAll(q driver.Query) bool {
	return q.Group == "" && len(q.Sessions) == 0 && len(q.Others) == 0 && len(q.States) == 0 && q.MinRev == 0 &&
		!q.Unsuspended && q.Expired == 0 && q.From == "" && q.To == ""
}

// Select makes the reply of a query out of candidates, in any order: those that match, counted or sorted and limited.
// Now, Floor and Lineage are left to the caller. It reorders and changes candidates.
func Select(candidates []driver.Doc, q driver.Query) driver.Reply {
	docs := slices.DeleteFunc(candidates, func(d driver.Doc) bool { return !Matches(&d, q) })
	if q.CountOnly {
		return driver.Reply{Total: int64(len(docs))}
	}
	slices.SortFunc(docs, func(a, b driver.Doc) int {
		if q.Reverse {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	if q.Limit > 0 && len(docs) > q.Limit {
		docs = docs[:q.Limit]
	}
	if q.NoBody {
		for i := range docs {
			docs[i].Body = nil
		}
	}
	return driver.Reply{Docs: docs}
}

// DefaultCluster is the cluster of a [driver.Config] that names none.
const DefaultCluster = "default"

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// ValidCluster says whether a cluster may have this name.
func ValidCluster(name string) bool { return clusterName.MatchString(name) }

// Cluster is the name of a cluster, or the default. The error is a [driver.FieldError].
func Cluster(name string) (string, error) {
	name = cmp.Or(name, DefaultCluster)
	if !ValidCluster(name) {
		return "", &driver.FieldError{Field: "cluster", Text: "must be at most 63 letters, digits, '.', '-' and '_'"}
	}
	return name, nil
}

// DefaultTimeout bounds calls whose context has no deadline, unless a [driver.Config] says otherwise. It is about a
// sixth of the default lease.
const DefaultTimeout = 3 * time.Second

// Complete fills in the cluster and the timeout that a Config leaves out. Errors wrap [driver.ErrInvalid].
func Complete(c driver.Config) (_ driver.Config, err error) {
	if c.Cluster, err = Cluster(c.Cluster); err != nil {
		return c, err
	}
	if c.Timeout < 0 {
		return c, fmt.Errorf("%w: timeout: %s, want above 0", driver.ErrInvalid, c.Timeout)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	return c, nil
}

var leading = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*`)

// Numbers are the numbers that a server's version begins with, such as 10.11.19 of 10.11.19-MariaDB-log; empty: none.
func Numbers(version string) string { return leading.FindString(version) }

// Older says whether the numbers of a server's version are before those of another, of which those that are missing
// come first: 3.5 is before 3.5.3. known is false for a version without numbers.
func Older(version, than string) (older, known bool) {
	is, least := numbers(version), numbers(than)
	return slices.Compare(is, least) < 0, len(is) > 0
}

func numbers(version string) (all []int) {
	for part := range strings.SplitSeq(Numbers(version), ".") {
		n, err := strconv.Atoi(part)
		if err != nil { // no number at all, or one that no version has
			return nil
		}
		all = append(all, n)
	}
	return all
}
