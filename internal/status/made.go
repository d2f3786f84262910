package status

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/singleflight"
)

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

// answers are those from the snapshot that the query belongs to.
func (s *server) answers(q *query) *answers {
	if q.all() {
		return s.whole
	}
	return s.filtered
}

// made is an answer, or why there is none. Nothing changes it.
type made struct {
	text *packed
	tag  string // its ETag
	bad  *Error
}

// get is what write writes, or the error that it returns. It depends on the request's address, on whether output is
// hidden from it, and on the version of the snapshot, which is 0 where the store is asked. ctx does not end with one
// of those who wait.
func (a *answers) get(
	r *http.Request, version uint64, write func(ctx context.Context, w io.Writer) *Error,
) *made {
	same := fmt.Sprintf("%d %t %s", version, outputHidden(r) != nil, r.URL.RequestURI())
	lasting := context.WithoutCancel(r.Context())
	v, _, _ := a.flights.Do(same, func() (any, error) {
		a.slots <- struct{}{}
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(lasting, answerTimeout)
		defer cancel()
		return makeAnswer(func(w io.Writer) *Error { return write(ctx, w) }), nil
	})
	return v.(*made) //nolint:forcetypeassert // as returned above
}

func makeAnswer(write func(io.Writer) *Error) *made {
	var m made
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
func (m *made) send(w http.ResponseWriter, r *http.Request, media string) *Error {
	if m.bad != nil {
		return m.bad
	}
	w.Header().Set("Content-Type", media)
	out := newAnswer(w)
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
