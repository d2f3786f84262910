package redis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// entry is one entry of a stream. One without fields was removed from the stream while it was pending.
type entry struct {
	id     id
	fields []string // names and values in turn
	again  bool
	// delivered is how often it was delivered before, as far as that is known.
	delivered int
}

// size is how many bytes its names and values have.
func (e entry) size() int {
	n := 0
	for _, text := range e.fields {
		n += len(text)
	}
	return n
}

// entriesIn reads a list of entries as XRANGE gives it.
func entriesIn(reply any) ([]entry, error) {
	list, ok := reply.([]any)
	if reply == nil {
		return nil, nil
	}
	if !ok {
		return nil, fmt.Errorf("unexpected answer of type %T, must be a list of entries", reply)
	}
	entries := make([]entry, 0, len(list))
	for _, item := range list {
		e, err := entryIn(item)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func entryIn(item any) (entry, error) {
	pair, _ := item.([]any)
	if len(pair) != 2 {
		return entry{}, fmt.Errorf("unexpected answer of type %T, must be an ID and fields", item)
	}
	text, _ := pair[0].(string)
	at, err := parseID(text)
	if err != nil {
		return entry{}, err
	}
	e := entry{id: at}
	values, _ := pair[1].([]any) // nil for an entry that was removed
	for _, value := range values {
		text, _ := value.(string)
		e.fields = append(e.fields, text)
	}
	return e, nil
}

// message is what an entry of a stream holds.
func (e entry) message(stream, bodyField string) subscribe.Message {
	m := subscribe.Message{
		ID: stream + "/" + e.id.String(), Time: e.id.time(), Again: e.again, Delivered: e.delivered, Ref: e.id,
		Headers: map[string]string{},
	}
	for i := 0; i+1 < len(e.fields); i += 2 {
		switch name, value := e.fields[i], e.fields[i+1]; name {
		case bodyField:
			m.Body = []byte(value)
		case keyField:
			m.Key = []byte(value)
		case typeField:
			m.Type = value
		default:
			m.Headers[name] = value
		}
	}
	return m
}

// fieldsOf are the names and values of an entry that holds m and, besides, what headers holds.
func fieldsOf(m subscribe.Message, bodyField string, headers map[string]string) []any {
	fields := []any{bodyField, m.Body}
	if m.Body == nil {
		fields[1] = ""
	}
	if m.Key != nil {
		fields = append(fields, keyField, m.Key)
	}
	if m.Type != "" {
		fields = append(fields, typeField, m.Type)
	}
	all := maps.Clone(m.Headers)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, headers)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fields = append(fields, name, all[name])
	}
	return fields
}

// id is the ID of an entry: milliseconds and a number within them. Its zero value is before every entry.
type id struct{ ms, seq uint64 }

// parseID reads MS-SEQ, or MS alone, which is MS-0.
func parseID(text string) (id, error) {
	ms, seq, both := strings.Cut(text, "-")
	parsed := id{}
	var err error
	if parsed.ms, err = strconv.ParseUint(ms, 10, 64); err == nil && both {
		parsed.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return id{}, fmt.Errorf("%q is not the ID of an entry, such as 1700000000000-0", text)
	}
	return parsed, nil
}

func isID(text string) bool {
	_, err := parseID(text)
	return err == nil
}

func (i id) String() string {
	return strconv.FormatUint(i.ms, 10) + "-" + strconv.FormatUint(i.seq, 10)
}

func (i id) compare(other id) int {
	return cmp.Or(cmp.Compare(i.ms, other.ms), cmp.Compare(i.seq, other.seq))
}

func (i id) before(other id) bool { return i.compare(other) < 0 }

// The milliseconds that are taken for a time: from 1973 to 2286. IDs that a program chose itself count otherwise.
const (
	firstTime = 100_000_000_000
	lastTime  = 9_999_999_999_999
)

// time is when the entry was added; zero where the ID was not made from a clock.
func (i id) time() time.Time {
	if i.ms < firstTime || i.ms > lastTime {
		return time.Time{}
	}
	return time.UnixMilli(int64(i.ms)).UTC()
}
