package status

import (
	"bufio"
	"encoding/json"
	"io"
	"iter"
	"strconv"

	"github.com/shardctl/shardctl/pkg/api"
)

// chunk is how much of an answer is collected before it is written, in bytes.
const chunk = 16 << 10

// body writes JSON piece by piece, so that a long list is never in memory as a whole. The first error stays.
type body struct {
	w      *bufio.Writer
	json   *json.Encoder
	prefix string // of each line
	err    error
}

func newBody(w io.Writer, prefix string) *body {
	buffered := bufio.NewWriterSize(w, chunk)
	return &body{w: buffered, json: json.NewEncoder(buffered), prefix: prefix}
}

func (b *body) text(parts ...string) {
	for _, part := range parts {
		if b.err == nil {
			_, b.err = b.w.WriteString(part)
		}
	}
}

// value writes v and ends the line.
func (b *body) value(v any) {
	if b.err == nil {
		b.err = b.json.Encode(v)
	}
}

func (b *body) flush() error {
	if b.err == nil {
		b.err = b.w.Flush()
	}
	return b.err
}

// streamed is a JSON object whose last list is written item by item, a line each.
type streamed[T any] struct {
	head  string // up to the bracket that opens the list
	items iter.Seq[*T]
	tail  string // from the bracket that closes it
}

// lines is a streamed object of some type of items.
type lines interface{ writeTo(b *body) }

func (s streamed[T]) writeTo(b *body) {
	b.text(b.prefix, s.head)
	n := 0
	for item := range s.items {
		if n == 0 {
			b.text("\n", b.prefix)
		} else {
			b.text(b.prefix, ",")
		}
		if b.value(item); b.err != nil {
			return
		}
		n++
	}
	if n > 0 {
		b.text(b.prefix)
	}
	b.text(s.tail, "\n")
}

// listLines is a list as [List] writes it.
func listLines[T any](items iter.Seq[*T], next string, stale bool) lines {
	return streamed[T]{
		head: `{"items":[`, items: items,
		tail: `],"continue":` + quote(next) + `,"stale":` + strconv.FormatBool(stale) + `}`,
	}
}

// statusLines is a status whose problems, of which there may be one for each task, are written one by one. hidden
// leaves out what tasks wrote.
func statusLines(s *api.Status, hidden bool) (lines, error) {
	head := *s
	head.Problems = nil
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	const tail = "]}" // problems are the last field
	problems := func(yield func(*api.Problem) bool) {
		for i := range s.Problems {
			if !yield(shownProblem(&s.Problems[i], hidden)) {
				return
			}
		}
	}
	return streamed[api.Problem]{head: string(text[:len(text)-len(tail)]), items: problems, tail: tail}, nil
}

// each yields pointers to the items.
func each[T any](items []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range items {
			if !yield(&items[i]) {
				return
			}
		}
	}
}

// quote is a text in JSON.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // texts always marshal
		return `""`
	}
	return string(b)
}

// writeLines writes a streamed object.
func writeLines(w io.Writer, l lines) *Error {
	b := newBody(w, "")
	l.writeTo(b)
	return internal(b.flush())
}
