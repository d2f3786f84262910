package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// fields is how many fields stand before the body.
const fields = 10

// encode is a document as scripts keep it: its fields, each ended by a NUL byte, and its body. No text holds one.
func encode(d store.Doc) []byte {
	var b bytes.Buffer
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, field := range [fields]string{
		number(d.Rev), d.WriterID.Session, number(d.WriterID.Seq), d.Group, d.Session, d.Next, bit(d.Suspended),
		d.State,
		number(d.Count), number(d.Expires),
	} {
		b.WriteString(field)
		b.WriteByte(0)
	}
	b.Write(d.Body)
	return b.Bytes()
}

// decode is the reverse of encode. What it cannot read was edited out of band: the error says why.
func decode(kind store.Kind, id, text string) (store.Doc, error) {
	d := store.Doc{Kind: kind, ID: id}
	parts := strings.SplitN(text, "\x00", fields+1)
	if len(parts) != fields+1 {
		return d, fmt.Errorf("%d fields, want %d and a body", len(parts)-1, fields)
	}
	var errs []error
	number := func(i int) int64 {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || !known(i, parts[i]) {
			errs = append(errs, fmt.Errorf("field %d: %.40q is no whole number as scripts know them", i+1, parts[i]))
		}
		return n
	}
	d.Rev, d.WriterID = number(0), store.WriterID{Session: parts[1], Seq: number(2)}
	d.Group, d.Session, d.Next, d.State = parts[3], parts[4], parts[5], parts[7]
	if d.Suspended = parts[6] == "1"; !d.Suspended && parts[6] != "0" {
		errs = append(errs, fmt.Errorf("field 7: %.40q: want 0 or 1", parts[6]))
	}
	d.Count, d.Expires = number(8), number(9)
	if parts[fields] != "" {
		d.Body = []byte(parts[fields])
	}
	if err := errors.Join(errs...); err != nil {
		return d, err
	}
	return d, store.CheckFound(d)
}

// known says whether scripts take a number for one. What they do not know and this program does could not be changed.
func known(field int, text string) bool {
	digits := text
	if field == 2 || field == 8 { // the others have no sign
		digits = strings.TrimPrefix(text, "-")
	}
	if len(digits) > 19 || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	return field != 0 || !strings.HasPrefix(digits, "0")
}
