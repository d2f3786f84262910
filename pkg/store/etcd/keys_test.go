package etcd

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// The order of backwards texts is the reverse of the order of IDs, where one begins with the other as well.
func TestBackwardsReversesTheOrder(t *testing.T) {
	ids := []string{"a", "aa", "a\x01", "b", "ä", "\U0010ffff", "g/0", "g/00", "g0"}
	slices.Sort(ids)
	flipped := make([]string, len(ids))
	for i, id := range ids {
		flipped[i] = backwards(id) + backwardsEnd
	}
	if !slices.IsSortedFunc(flipped, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%q are not in reverse order", flipped)
	}
}

func TestEntriesNameTheirDocument(t *testing.T) {
	k := newKeys("p", "c")
	d := driver.Doc{ID: "g2/a", Group: "g", Session: "s/1", Rev: driver.MaxRev, Expires: driver.MaxMark}
	for _, info := range driver.Table() {
		d.Kind = info.Kind
		seen := map[string]bool{}
		for _, entry := range k.entries(&d) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(entry, "p/c/.index/"+string(d.Kind)+"/"), "/")
			if got := entryID(name, rest); got != d.ID {
				t.Errorf("%q names %q", entry, got)
			}
			seen[name] = true
		}
		if len(seen) < len(info.Indexes) {
			t.Errorf("%s: indexes %v, want one for each of %v", info.Kind, seen, info.Indexes)
		}
	}
	if got := k.entries(nil); got != nil {
		t.Errorf("an absent document is in %q", got)
	}
}

// What another tool wrote into an index names nothing, and breaks nothing.
func TestEntriesThatNameNothing(t *testing.T) {
	const cut = "0123456789abcdef" // shorter than any rest of an entry with a number and an ID
	for _, rest := range []string{
		"", separator, "0s", "0s" + separator, backwardsEnd, separator + backwardsEnd,
		"\xff",
	} {
		for _, name := range []string{indexRev, indexExpires} {
			if id := entryID(name, rest); id != "" {
				t.Errorf("%s %q names %q", name, rest, id)
			}
		}
		for _, name := range []string{indexOwner, indexGroup, indexLast} {
			for i := range cut {
				entryID(name, cut[:i]+rest)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	for version, good := range map[string]bool{
		"3.5.8": true, "3.5.21": true, "3.6.0": true, "3.7.3": true, "3.10.0-rc.1": true, "3.5.9+x1": true,
		"4.0.0": true,
		"3.5.7": false, "3.5.0": false, "3.5": false, "3.4.36": false, "2.3.8": false, "": false, "3": false,
		"x.y": false,
	} {
		if err := checkVersion(version); (err == nil) != good {
			t.Errorf("%q: %v", version, err)
		}
	}
}
