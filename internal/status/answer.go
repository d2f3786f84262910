package status

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// internal is the answer where err is not nil.
func internal(err error) *web.Error {
	if err == nil {
		return nil
	}
	return web.NewError(http.StatusInternalServerError, api.ReasonInternal, "%v", err)
}

// The media types of answers.
const (
	mediaJSON = "application/json"
	mediaHTML = "text/html; charset=utf-8"
	mediaText = "text/plain; charset=utf-8"
)

// smallText is from which length on, in bytes, a text is compressed.
const smallText = 1 << 10

// sendText answers with a text, in gzip to who takes it.
func sendText(w http.ResponseWriter, r *http.Request, media, text string) *web.Error {
	if len(text) < smallText || !takesGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, text) // the reader is gone
		return nil
	}
	return makeAnswer(func(b *body) *web.Error {
		b.text(text)
		return nil
	}).send(w, r, media)
}

func sendJSON(w http.ResponseWriter, r *http.Request, v any) *web.Error {
	text, err := json.Marshal(v)
	if err != nil {
		return internal(err)
	}
	return sendText(w, r, mediaJSON, string(text)+"\n")
}

// answer is an answer, or why there is none. Nothing changes it.
type answer struct {
	text []byte // in gzip
	tag  string // its ETag
	bad  *web.Error
}

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func makeAnswer(write func(*body) *web.Error) *answer {
	zip := compressors.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool holds no other type
	defer func() {
		zip.Reset(nil)
		compressors.Put(zip)
	}()
	var text bytes.Buffer
	zip.Reset(&text)
	b := newBody(zip, "")
	if bad := write(b); bad != nil {
		return &answer{bad: bad}
	}
	err := b.flush()
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return &answer{bad: internal(err)}
	}
	sum := sha256.Sum256(text.Bytes())
	// The tag is weak: readers without gzip have the same.
	return &answer{text: bytes.Clone(text.Bytes()), tag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`}
}

// send answers with it. Who takes no gzip has it decompressed on the way, so that nobody keeps a text of his own.
func (m *answer) send(w http.ResponseWriter, r *http.Request, media string) *web.Error {
	if m.bad != nil {
		return m.bad
	}
	w.Header().Set("Content-Type", media)
	// Recorders in tests and some wrappers know no deadlines; the server's own limit holds then.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.AnswerTimeout))
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(m.text) // the reader may be gone
		return nil
	}
	text, err := gzip.NewReader(bytes.NewReader(m.text))
	if err != nil {
		return internal(err)
	}
	_, _ = io.Copy(w, text) //nolint:gosec // G110: this program compressed it; the reader may be gone
	return nil
}

// takesGzip reads an Accept-Encoding.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if coding = strings.TrimSpace(coding); !strings.EqualFold(coding, "gzip") && coding != "*" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q="), 64)
		return err != nil || q > 0
	}
	return false
}

// sendTagged answers with the ETag, or says that the answer is the one that the reader has.
func (m *answer) sendTagged(w http.ResponseWriter, r *http.Request, media string) *web.Error {
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

// chunk is how much of an answer is collected before it is written, in bytes.
const chunk = 32 << 10

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

// lines writes a JSON object whose last list has a line for each item.
type lines func(*body)

// itemLines has the head up to the bracket that opens the list, and the tail from the one that closes it.
func itemLines[T any](head string, items iter.Seq[*T], tail string) lines {
	return func(b *body) {
		b.text(b.prefix, head)
		n := 0
		for item := range items {
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
		b.text(tail, "\n")
	}
}

// listLines is a list as [api.List] writes it.
func listLines[T any](items iter.Seq[*T], next string, stale bool) lines {
	return itemLines(
		`{"items":[`, items, `],"continue":`+strconv.Quote(next)+`,"stale":`+strconv.FormatBool(stale)+`}`,
	)
}

// statusLines is a status whose problems, of which there may be one for each task, are written one by one. hidden
// leaves out what tasks wrote.
func statusLines(s *api.Status, hidden bool) lines {
	return func(b *body) {
		head := *s
		head.Problems = nil
		text, err := json.Marshal(head)
		if err != nil {
			b.err = err
			return
		}
		const tail = "]}" // problems are the last field
		itemLines(string(text[:len(text)-len(tail)]), func(yield func(*api.Problem) bool) {
			for p := range each(s.Problems) {
				if !yield(shownProblem(p, hidden)) {
					return
				}
			}
		}, tail)(b)
	}
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
