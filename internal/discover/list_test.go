package discover

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/published"
)

// found makes a list of names, each NAME or NAME:PARTITION.
func found(names string) []Found {
	var all []Found
	for name := range strings.FieldsSeq(names) {
		name, partition, _ := strings.Cut(name, ":")
		all = append(all, Found{Name: name, Partition: partition})
	}
	return all
}

// shown is a list as NAME, or NAME@GONE.
func shown(entries []Entry) string {
	words := make([]string, len(entries))
	for i, e := range entries {
		if words[i] = e.Name; e.Gone != 0 {
			words[i] += fmt.Sprintf("@%d", e.Gone)
		}
	}
	return strings.Join(words, " ")
}

func TestAListFollowsWhatIsFound(t *testing.T) {
	rules := Rules{Grace: 100 * time.Millisecond, Limit: 4}
	var list []Entry
	for i, step := range []struct {
		now     int64
		found   string
		want    string
		leftOut int
	}{
		{1000, "b d", "b d", 0},
		{1010, "a b d", "a b d", 0},
		{1020, "a d", "a b@1020 d", 0},
		{1119, "a d", "a b@1020 d", 0},
		{1119, "a b d", "a b d", 0},             // it is back
		{1120, "", "a@1120 b@1120 d@1120", 0},   // an empty answer
		{1130, "a", "a b@1120 d@1120", 0},       //
		{1140, "a e f", "a b@1120 d@1120 e", 1}, // what vanished has its place until the grace is over
		{1220, "a e f", "a e f", 0},
		{900, "e f", "a@900 e f", 0}, // the clock was set back
		{800, "e f", "a@800 e f", 0}, // a date that is to come would keep it for ever
		{900, "e f", "e f", 0},
		{901, "c d e f g", "c d e f", 1},
	} {
		var left int
		if list, left = rules.Next(list, found(step.found), step.now); shown(list) != step.want ||
			left != step.leftOut {
			t.Fatalf("step %d: %q, %d left out; want %q, %d", i, shown(list), left, step.want, step.leftOut)
		}
	}
	if after, _ := (Rules{Limit: 2}).Next(list, found("c d e f"), 950); len(after) != 4 {
		t.Errorf("a lower limit takes known ones away: %s", shown(after))
	}
	if after, _ := (Rules{Limit: 9}).Next(list, found("c"), 950); shown(after) != "c" {
		t.Errorf("without a grace %s is left", shown(after))
	}
	edited := []Entry{{Found: Found{Name: "b"}}, {Found: Found{Name: "a"}}, {Found: Found{Name: "b"}}}
	if after, left := (Rules{Limit: 9}).Next(edited, found("a b c"), 950); shown(after) != "a b c" || left != 0 {
		t.Errorf("of a list that was edited out of order comes %s", shown(after))
	}
	changed := []Found{{Name: "c", Weight: 3}}
	if after, _ := rules.Next(list[:1], changed, 950); after[0].Weight != 3 {
		t.Errorf("a new weight does not count: %+v", after)
	}
}

// The largest entry that passes Check fits into a chunk.
func TestTheLargestEntry(t *testing.T) {
	labels := map[string]string{}
	for i := range MaxLabels {
		labels[fmt.Sprintf("%063d", i)] = strings.Repeat("x", 63)
	}
	large := Found{Name: strings.Repeat("\x01", MaxName), Labels: labels, Weight: MaxWeight}
	if _, err := Check([]Found{large}); err != nil {
		t.Fatal(err)
	}
	if body, err := json.Marshal([]Entry{{Found: large}}); err != nil || len(body) > published.MaxChunk {
		t.Errorf("%v, %d bytes", err, len(body))
	}
}
