// Package discover finds what tasks are made for: topics, queues, streams, or what an address or a file lists.
//
// A [Lister] asks one such place and returns all that is there, each a [Found]. One replica, the one that holds the
// group's lock for it, asks at an interval: its [Looker] publishes the list in the store, as package published does, in
// the space "~discovery". Every replica reads the list by a [Reader] and makes tasks of it by the template in its
// configuration, which package config has, under the names that [TaskName] gives.
//
// Nothing vanishes because it could not be asked for. A look that fails changes no list, and what a look does not find
// stays for the grace.
//
// A lister is chosen by a field of discover in a configuration, as http or file, and is read by a [Kind]. Each kind is
// a package of its own below this one, so that its client is imported by no other.
package discover

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Found is one thing that a task is made for.
type Found struct {
	// Name is what it is called where it was found, 1 to MaxName bytes: a topic, a queue.
	Name string `json:"name"`
	// Partition is the part of it, a decimal number without leading zeros; empty where it is not divided.
	Partition string `json:"partition,omitempty"`
	// Labels of the task. They win over those of the template.
	Labels map[string]string `json:"labels,omitempty"`
	// Weight of the task, from 1 to MaxWeight; 0: the template's.
	Weight int `json:"weight,omitempty"`
}

// Limits on what is found. Whatever is beyond them is refused, never cut.
const (
	MaxName   = 1 << 10 // bytes of a name
	MaxWeight = 1_000_000
	MaxLabels = 16      // of one found
	MaxFound  = 100_000 // entries of a list
)

// What is allowed as in a configuration.
var (
	partitionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)
	labelName     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
	labelValue    = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// String is NAME, or NAME partition N.
func (f Found) String() string {
	if f.Partition == "" {
		return f.Name
	}
	return f.Name + " partition " + f.Partition
}

// Same says whether nothing of two differs.
func (f Found) Same(other Found) bool {
	return f.Name == other.Name && f.Partition == other.Partition && f.Weight == other.Weight &&
		maps.Equal(f.Labels, other.Labels)
}

// Validate says everything that is wrong with it.
func (f Found) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case f.Name == "":
		bad("name: is empty")
	case len(f.Name) > MaxName:
		bad("name: %.40q… has %d bytes, at most %d are allowed", f.Name, len(f.Name), MaxName)
	case !utf8.ValidString(f.Name) || strings.ContainsRune(f.Name, 0):
		bad("name: %.80q is not UTF-8 without NUL", f.Name)
	}
	if f.Partition != "" && !partitionForm.MatchString(f.Partition) {
		bad("partition: is %.20q, must be a whole number from 0 to 999999999", f.Partition)
	}
	if f.Weight < 0 || f.Weight > MaxWeight {
		bad("weight: is %d, must be a whole number from 1 to %d", f.Weight, MaxWeight)
	}
	if len(f.Labels) > MaxLabels {
		bad("labels: are %d, at most %d are allowed", len(f.Labels), MaxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		switch {
		case !labelName.MatchString(name):
			bad("labels: the name %.80q must be at most 63 letters, digits, '-', '_', '.' and '/', beginning and "+
				"ending with a letter or digit", name)
		case !labelValue.MatchString(f.Labels[name]):
			bad("labels.%s: is %.80q, must be at most 63 letters, digits, '-', '_' and '.', beginning and ending "+
				"with a letter or digit, or empty", name, f.Labels[name])
		}
	}
	return errors.Join(errs...)
}

// Compare orders by name, and then by the number of the partition.
func Compare(a, b Found) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(number(a.Partition), number(b.Partition)))
}

// number is a partition's; -1: none.
func number(partition string) int {
	n, err := strconv.Atoi(partition)
	if err != nil {
		return -1
	}
	return n
}

// Check sorts what a lister returned, and says what is wrong with it: an entry that is malformed, one that is there
// twice, a list in which only some have a partition. At most five entries are named.
func Check(all []Found) ([]Found, error) {
	if len(all) > MaxFound {
		return nil, fmt.Errorf("%d were found, at most %d are read", len(all), MaxFound)
	}
	var errs problems
	for i, f := range all {
		if err := f.Validate(); err != nil {
			errs.add("entry %d (%.80q): %s", i+1, f.Name, oneLine(err))
		} else if (f.Partition == "") != (all[0].Partition == "") {
			errs.add("entry %d (%.80q): either all have a partition or none has", i+1, f.Name)
		}
	}
	if errs.err() != nil {
		return nil, errs.err()
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, Compare)
	for i := 1; i < len(sorted); i++ {
		if Compare(sorted[i-1], sorted[i]) == 0 {
			errs.add("%.80q is there twice", sorted[i].String())
		}
	}
	return sorted, errs.err()
}

// Append adds one that was found to a list, unless [MaxFound] are there already.
func Append(all []Found, f Found) ([]Found, error) {
	if len(all) >= MaxFound {
		return nil, fmt.Errorf("has more than %d entries, the most that are read", MaxFound)
	}
	return append(all, f), nil
}

// problems are those of a list: the first few, and how many more there are.
type problems struct {
	said []string
	more int
}

const maxSaid = 5

func (p *problems) add(format string, args ...any) {
	if len(p.said) >= maxSaid {
		p.more++
		return
	}
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

func (p *problems) err() error {
	if len(p.said) == 0 {
		return nil
	}
	text := strings.Join(p.said, "; ")
	if p.more > 0 {
		text += fmt.Sprintf(" (and %d more)", p.more)
	}
	return errors.New(text)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }

// maxTaskName is how many bytes the name of a task may have.
const maxTaskName = 249

// longMark stands before the hash in a name that was too long. No other name holds it.
const longMark = "_-"

// TaskName is the name of the task that is made for what was found. Two never have the same, as long as either all of a
// list have a partition or none has.
//
// Letters, digits, '.', '-' and '_' stay. Every other byte becomes _XX, its value in upper-case hex. So does what would
// be read as such: '_' before two upper-case hex digits or '-' or at the end, and '.' or '-' at the beginning. A
// partition follows after a '-'. A name that would be longer than 249 bytes keeps its beginning and ends with "_-" and
// the first 16 bytes of its SHA-256 in hex.
func TaskName(name, partition string) string {
	tail := ""
	if partition != "" {
		tail = "-" + partition
	}
	text := escape(name)
	if len(text)+len(tail) > maxTaskName {
		sum := sha256.Sum256([]byte(name))
		hash := longMark + hex.EncodeToString(sum[:16])
		text = text[:maxTaskName-len(hash)-len(tail)] + hash
	}
	return text + tail
}

func escape(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(name, i) {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "_%02X", c)
		}
	}
	return out.String()
}

// plain says whether the byte at i stays as it is.
func plain(name string, i int) bool {
	switch c := name[i]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	case c == '.', c == '-':
		return i > 0
	case c == '_':
		rest := name[i+1:]
		return rest != "" && rest[0] != '-' && (len(rest) < 2 || !isHex(rest[0]) || !isHex(rest[1]))
	default:
		return false
	}
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'F' }
