package status

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

// Error is what to answer instead of what was asked for.
type Error = httperr.Error

// internal is the answer where err is not nil.
func internal(err error) *Error {
	if err == nil {
		return nil
	}
	return httperr.New(http.StatusInternalServerError, api.ReasonInternal, "%v", err)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader is gone
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the reader is gone
}

// The media types of answers.
const (
	mediaJSON = "application/json"
	mediaHTML = "text/html; charset=utf-8"
)

// answers makes each answer once for all who ask for the same while it is made. Use newAnswers.
type answers struct {
	flights singleflight.Group
	slots   chan struct{} // one for each that is made at the moment
}

func newAnswers(atOnce int) *answers { return &answers{slots: make(chan struct{}, atOnce)} }

// answer is an answer, or why there is none. Nothing changes it.
type answer struct {
	text *packed
	tag  string // its ETag
	bad  *Error
}

// get is what write writes, or the error that it returns. It depends on the request's address, on whether output is
// hidden from it, and on the version of the snapshot, which is 0 where the store is asked. ctx does not end with one
// of those who wait.
func (a *answers) get(
	r *http.Request, version uint64, write func(ctx context.Context, w io.Writer) *Error,
) *answer {
	same := fmt.Sprintf("%d %t %s", version, outputHidden(r) != nil, r.URL.RequestURI())
	lasting := context.WithoutCancel(r.Context())
	v, _, _ := a.flights.Do(same, func() (any, error) {
		a.slots <- struct{}{}
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(lasting, answerTimeout)
		defer cancel()
		return makeAnswer(func(w io.Writer) *Error { return write(ctx, w) }), nil
	})
	return v.(*answer) //nolint:forcetypeassert // as returned above
}

func makeAnswer(write func(io.Writer) *Error) *answer {
	var m answer
	sum := sha256.New()
	text, err := pack(func(w io.Writer) error {
		m.bad = write(io.MultiWriter(w, sum))
		return nil
	})
	if m.bad == nil {
		m.bad = internal(err)
	}
	m.text = text
	m.tag = `W/"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:15]) + `"` // weak: gzip has the same
	return &m
}

// send answers with it.
func (m *answer) send(w http.ResponseWriter, r *http.Request, media string) *Error {
	if m.bad != nil {
		return m.bad
	}
	w.Header().Set("Content-Type", media)
	out := newDeadlineWriter(w)
	var encoded wire = plainWire{out}
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
		encoded = newGzipWire(out)
	}
	if encoded.packed(m.text) == nil {
		_ = encoded.end() // the reader is gone
	}
	return nil
}

// sendTagged answers with the ETag, or says that the answer is the one that the reader has.
func (m *answer) sendTagged(w http.ResponseWriter, r *http.Request, media string) *Error {
	if m.bad == nil {
		w.Header().Set("ETag", m.tag)
		if hasTag(r.Header.Get("If-None-Match"), m.tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return m.send(w, r, media)
}

// hasTag says whether an If-None-Match names the tag.
func hasTag(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" ||
			strings.TrimPrefix(part, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// answerTimeout is how long an answer that is no stream may take as a whole, however steadily its reader reads.
const answerTimeout = 60 * time.Second

// deadlineWriter writes a long answer. Its text stays in memory until the reader has it. So each chunk has a
// deadline, as a stream's has, and all of it has one too. Use newDeadlineWriter.
type deadlineWriter struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	until time.Time
}

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{w: w, ctl: http.NewResponseController(w), until: time.Now().Add(answerTimeout)}
}

// Write implements [io.Writer]. The last deadline holds for what the server writes afterwards.
func (d *deadlineWriter) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		at := time.Now().Add(writeTimeout)
		if at.After(d.until) {
			at = d.until
		}
		_ = d.ctl.SetWriteDeadline(at) // writers that know no deadlines have the connection's own limits
		var m int
		m, err = d.w.Write(p[n:min(len(p), n+chunk)])
		n += m
	}
	return n, err
}

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
