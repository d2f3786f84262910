package mongo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Names of the fields in MongoDB.
const (
	fieldID        = "_id"
	fieldRev       = "rev"
	fieldWriter    = "writer"
	fieldGroup     = "group"
	fieldSession   = "session"
	fieldNext      = "next"
	fieldSuspended = "suspended"
	fieldState     = "state"
	fieldCount     = "count"
	fieldExpires   = "expires"
	fieldBody      = "body"
	fieldNow       = "now" // computed by the server, never stored
)

type record struct {
	ID        string   `bson:"_id"`
	Rev       int64    `bson:"rev"`
	Writer    writerID `bson:"writer"`
	Group     string   `bson:"group,omitempty"`
	Session   *string  `bson:"session,omitempty"` // of what has an owner always, so that the unowned ones are found
	Next      string   `bson:"next,omitempty"`
	Suspended *bool    `bson:"suspended,omitempty"` // where it is indexed always
	State     string   `bson:"state,omitempty"`
	Count     int64    `bson:"count,omitempty"`
	Expires   int64    `bson:"expires,omitempty"`
	Body      any      `bson:"body,omitempty"` // text where it is one, for people who look; else binary
}

type writerID struct {
	Session string `bson:"session"`
	Seq     int64  `bson:"seq"`
}

func encode(d driver.Doc) record {
	r := record{
		ID: d.ID, Rev: d.Rev, Writer: writerID(d.WriterID), Group: d.Group, Next: d.Next, State: d.State,
		Count: d.Count, Expires: d.Expires,
	}
	switch {
	case len(d.Body) == 0:
	case utf8.Valid(d.Body):
		r.Body = string(d.Body)
	default:
		r.Body = d.Body
	}
	info := d.Kind.Info()
	if info.Notify == driver.NotifyFree || d.Session != "" {
		r.Session = &d.Session
	}
	if info.Indexed(driver.FieldSession) || d.Suspended {
		r.Suspended = &d.Suspended
	}
	return r
}

// decode reads what can be read of a document. A malformed field counts as absent; the error names it.
func decode(kind driver.Kind, raw bson.Raw) (driver.Doc, error) {
	if err := raw.Validate(); err != nil { // looking up a field in it would panic
		return driver.Doc{}, fmt.Errorf("broken on the way: %w", err)
	}
	f := fields{raw: raw}
	d := driver.Doc{
		Kind: kind, ID: f.text(fieldID), Rev: f.number(fieldRev),
		WriterID: driver.WriterID{Session: f.text(fieldWriter, "session"), Seq: f.number(fieldWriter, "seq")},
		Group:    f.text(fieldGroup), Session: f.text(fieldSession), Next: f.text(fieldNext),
		Suspended: f.truth(fieldSuspended),
		State:     f.text(fieldState), Count: f.number(fieldCount), Expires: f.number(fieldExpires),
		Body: f.bytes(fieldBody),
	}
	return d, errors.Join(f.bad...)
}

// fields reads fields of a document that anybody may have edited.
type fields struct {
	raw bson.Raw
	bad []error
}

func (f *fields) text(path ...string) string {
	v, err := f.raw.LookupErr(path...)
	if err != nil || v.Type == bson.TypeNull {
		return ""
	}
	s, ok := v.StringValueOK()
	f.check(ok, path, v)
	return s
}

// bytes reads text or binary; nothing is nil.
func (f *fields) bytes(path ...string) []byte {
	v, err := f.raw.LookupErr(path...)
	if err != nil || v.Type == bson.TypeNull {
		return nil
	}
	if _, data, ok := v.BinaryOK(); ok {
		return slices.Clone(data)
	}
	text, ok := v.StringValueOK()
	f.check(ok, path, v)
	if text == "" {
		return nil
	}
	return []byte(text)
}

func (f *fields) number(path ...string) int64 {
	v, err := f.raw.LookupErr(path...)
	if err != nil || v.Type == bson.TypeNull {
		return 0
	}
	n, ok := whole(v)
	f.check(ok, path, v)
	return n
}

// whole reads a whole number. A shell writes all numbers as doubles; those that are not whole, or too large to be
// exact, are none.
func whole(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok {
		if f != math.Trunc(f) || math.Abs(f) > driver.MaxRev {
			return 0, false
		}
		return int64(f), true
	}
	return v.AsInt64OK()
}

func (f *fields) truth(path ...string) bool {
	v, err := f.raw.LookupErr(path...)
	if err != nil || v.Type == bson.TypeNull {
		return false
	}
	b, ok := v.BooleanOK()
	f.check(ok, path, v)
	return b
}

func (f *fields) check(ok bool, path []string, v bson.RawValue) {
	if !ok {
		f.bad = append(f.bad, fmt.Errorf("field %v is a %s", path, v.Type))
	}
}
