package listers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/shardctl/shardctl/internal/discover"
)

// Limits on a list as it is read. They hold for what is decoded: an answer of 16 KB of gzip may stand for 16 MiB, and
// 16 MiB may hold millions of entries.
const (
	maxSize  = 16 << 20 // bytes of a list
	maxEntry = 16 << 10 // bytes of one entry of it, with the space before it; of a line
	maxYAML  = 2 << 20  // bytes of a list in YAML, which is read as a whole
)

// bounded reads a text, and fails where it is larger than allowed. A mark of byte order (BOM) is dropped, and a text
// that begins with one of UTF-16 becomes UTF-8. Its errors continue a sentence about the text, as all of those that
// readJSON, readYAML and readLines return.
type bounded struct {
	r    io.Reader
	most int64 // bytes of all
	read int64
	from int64 // where the present entry begins; below 0: entries have no limit of their own
	err  error // what Read failed with, other than the end of the text
}

func newBounded(r io.Reader, most int64) *bounded {
	return &bounded{r: transform.NewReader(r, unicode.BOMOverride(transform.Nop)), most: most, from: -1}
}

// Read reads no more of an entry than is allowed of one, however large the buffer is.
func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.from >= 0 {
		left := b.from + maxEntry - b.read
		if left <= 0 {
			b.err = fmt.Errorf("has an entry of more than %d KiB, the most that is read", maxEntry>>10)
			return 0, b.err
		}
		p = p[:min(int64(len(p)), left)]
	}
	n, err := b.r.Read(p)
	b.read += int64(n)
	switch {
	case b.read > b.most:
		b.err = fmt.Errorf("is larger than %d MiB, the most that is read", b.most>>20)
		return 0, b.err
	case err != nil && !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("cannot be read: %w", err)
		return n, b.err
	}
	return n, err
}

// errNoList says that a text is not the list that was wanted.
var errNoList = errors.New("is not a JSON list")

// readList reads a JSON list, one entry at a time, and calls each with it. It ends with the first error of each. No
// more than one entry is in memory beside what each keeps. what says in words what is listed, as for an error, which
// wraps [errNoList] where the text is something else.
func readList[E any](r io.Reader, what string, each func(E) error) error {
	in := newBounded(r, maxSize)
	in.from = 0
	refused, err := decodeList(in, each)
	switch {
	case refused != nil:
		return refused
	case in.err != nil:
		return in.err // what the decoder says is its consequence
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%w of %s: %w", errNoList, what, err)
	}
	return nil
}

// decodeList returns the error of each as refused, and what is wrong with the text as err.
func decodeList[E any](in *bounded, each func(E) error) (refused, err error) {
	d := json.NewDecoder(in)
	switch first, err := d.Token(); {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, errors.New("it is null; an empty list is []")
	case first != json.Delim('['):
		return nil, fmt.Errorf("it begins with %.40q", fmt.Sprint(first))
	}
	for n := 1; ; n++ {
		in.from = d.InputOffset()
		if !d.More() {
			break
		}
		var e E
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
		if err := each(e); err != nil {
			return err, nil
		}
	}
	if _, err := d.Token(); err != nil { // the end of the list
		return nil, err
	}
	in.from = d.InputOffset()
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows after it")
	}
	return nil, nil
}

// names is what lists of names hold, in words.
const names = "names, or of objects with name, partition, labels, weight"

// readJSON reads a list of names, of mappings with name, partition, labels and weight, or of both.
func readJSON(r io.Reader) ([]discover.Found, error) {
	all := []discover.Found{}
	err := readList(r, names, func(e entry) (err error) {
		all, err = discover.Append(all, e.Found)
		return err
	})
	return unlessFailed(all, err)
}

// readLines reads a name from each line. Empty lines are skipped, and so are lines that begin with #.
func readLines(r io.Reader) ([]discover.Found, error) {
	all := []discover.Found{}
	lines := bufio.NewScanner(newBounded(r, maxSize))
	lines.Buffer(nil, maxEntry)
	for lines.Scan() {
		name := strings.TrimSpace(lines.Text())
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		var err error
		if all, err = discover.Append(all, discover.Found{Name: name}); err != nil {
			return nil, err
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("has a line of more than %d KiB, the most that is read", maxEntry>>10)
	}
	return unlessFailed(all, err)
}

// unlessFailed is the list, or nothing of it with an error.
func unlessFailed(all []discover.Found, err error) ([]discover.Found, error) {
	if err != nil {
		return nil, err
	}
	return all, nil
}
