package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// readAtOnce is how many ids one script reads, so that no other client waits long.
const readAtOnce = 500

// Get implements [dbstore.Backend]: a majority has what it shows, under one identity of the master. It begins again
// when that changes between its parts.
func (b *backend) Get(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	for {
		page, err := b.getParts(ctx, kind, ids)
		if !errors.Is(err, errTorn) {
			return page, err
		}
	}
}

// errTorn says that parts of a reply came from different lineages.
var errTorn = errors.New("the master changed between the parts of a reply")

func (b *backend) getParts(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	var page dbstore.Page
	identity := ""
	for len(ids) > 0 || identity == "" {
		part := ids[:min(len(ids), readAtOnce)]
		ids = ids[len(part):]
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		answer, err := b.good(
			ctx, b.laneOf(kind), readScript, b.keys.of(kind), func(string) ([]any, error) { return args, nil },
		)
		switch {
		case err != nil:
			return dbstore.Page{}, err
		case identity != "" && lineage(answer.identity) != lineage(identity):
			return dbstore.Page{}, errTorn
		}
		identity = answer.identity
		for i := range part {
			if text, ok := answer.text(i); ok {
				b.add(&page, kind, part[i], text)
			}
		}
		b.date(&page, answer)
	}
	return page, nil
}

// add takes what was found into a page: a document, or what is none, which does not fill a page.
func (b *backend) add(page *dbstore.Page, kind driver.Kind, id, text string) {
	d, err := decode(kind, id, text)
	if err == nil {
		err = driver.CheckFound(d)
	}
	if err != nil {
		page.Unreadable = append(page.Unreadable, driver.Unreadable{Kind: kind, ID: id, Err: err})
		return
	}
	b.tracker.rise(d.Rev)
	page.Docs = append(page.Docs, d)
}

// date says when a reply was, and in which lineage. A master that took over may have a clock that is behind:
// revisions go on above the largest one known.
func (b *backend) date(page *dbstore.Page, from reply) {
	page.Wall, page.Now = from.now, max(from.now, b.tracker.rise()+1)
	page.Floor, page.Lineage = page.Now, lineage(from.identity)
}

// errWords says that a script's reply has another form than this program knows.
var errWords = fmt.Errorf("a script's reply: %w", errors.ErrUnsupported)

// plan is the index by which a query is answered.
func plan(kind driver.Kind, q driver.Query) string {
	has := func(letter string) bool { return strings.Contains(indexes(kind), letter) }
	switch {
	case len(q.Sessions) > 0 && has("s"):
		return "sessions"
	case len(q.Others) > 0 && has("s"):
		return "others"
	case q.Expired > 0 && has("e"):
		return "expiry"
	case q.Group != "" && q.MinRev > 0 && has("r"):
		return "revisions"
	case q.Group != "" && has("g"):
		return "groups"
	}
	return "ids"
}

// Scan implements [dbstore.Backend]. It shows what the master has, which may be more than what majorities have. It
// begins again when the master changes between its parts.
func (b *backend) Scan(ctx context.Context, kind driver.Kind, q driver.Query) (dbstore.Page, error) {
	for {
		page, err := b.scanParts(ctx, kind, q)
		if !errors.Is(err, errTorn) {
			return page, err
		}
	}
}

// scanParts asks page by page where documents come in order of id. Each index by another order is read in one script,
// so that a document which moves within it meanwhile is neither shown twice nor missed.
func (b *backend) scanParts(ctx context.Context, kind driver.Kind, q driver.Query) (dbstore.Page, error) {
	var all dbstore.Page
	var total int64
	cursor, identity := "", ""
	b.looked.Store(0)
	for {
		page, err := b.plain(
			ctx, b.laneOf(kind), listScript, b.keys.of(kind), listArgs(kind, q, cursor, len(all.Docs)),
		)
		if err != nil {
			return dbstore.Page{}, err
		}
		if identity != "" && lineage(page.identity) != lineage(identity) {
			return dbstore.Page{}, errTorn
		}
		identity = page.identity
		if len(page.words) < 3 {
			return dbstore.Page{}, errWords
		}
		looked, _ := page.text(0)
		matched, _ := page.text(1)
		cursor, _ = page.text(2)
		b.looked.Add(whole(looked))
		total += whole(matched)
		for i := 3; i+1 < len(page.words); i += 2 {
			id, _ := page.text(i)
			text, _ := page.text(i + 1)
			b.add(&all, kind, id, text)
		}
		b.date(&all, page)
		if cursor == "" || q.Limit > 0 && !q.CountOnly && len(all.Docs) >= q.Limit {
			break
		}
	}
	if q.CountOnly {
		all.Docs, all.Unreadable, all.Total = nil, nil, total
		return all, nil
	}
	all.Docs = dbstore.Select(all.Docs, q).Docs
	return all, nil
}

func whole(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func listArgs(kind driver.Kind, q driver.Query, cursor string, have int) []any {
	limit := 0
	if q.Limit > 0 {
		limit = max(1, q.Limit-have)
	}
	args := []any{
		plan(kind, q), q.Group, q.MinRev, q.From, q.To, bit(q.Unsuspended), q.Expired, limit, bit(q.Reverse),
		bit(q.NoBody), bit(q.CountOnly), cursor,
	}
	for _, set := range [][]string{q.Sessions, q.Others, q.States} {
		set = slices.Compact(slices.Sorted(slices.Values(set)))
		args = append(args, len(set))
		for _, text := range set {
			args = append(args, text)
		}
	}
	return args
}

// fields is how many fields stand before the body.
const fields = 10

// encode is a document as scripts keep it: its fields, each ended by a NUL byte, and its body. No text holds one.
func encode(d driver.Doc) []byte {
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
func decode(kind driver.Kind, id, text string) (driver.Doc, error) {
	d := driver.Doc{Kind: kind, ID: id}
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
	d.Rev, d.WriterID = number(0), driver.WriterID{Session: parts[1], Seq: number(2)}
	d.Group, d.Session, d.Next, d.State = parts[3], parts[4], parts[5], parts[7]
	if d.Suspended = parts[6] == "1"; !d.Suspended && parts[6] != "0" {
		errs = append(errs, fmt.Errorf("field 7: %.40q: want 0 or 1", parts[6]))
	}
	d.Count, d.Expires = number(8), number(9)
	if parts[fields] != "" {
		d.Body = []byte(parts[fields])
	}
	return d, errors.Join(errs...)
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

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
