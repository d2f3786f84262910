package redis

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
