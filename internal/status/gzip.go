package status

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// compressors is how many answers are compressed at once. Each compressor takes 1 MB; the rest goes out as it is.
const compressors = 16

// compressed answers in gzip to those who take it. Streams compress for themselves.
func compressed(next http.Handler) http.Handler {
	slots := make(chan struct{}, compressors)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding, Authorization")
		if r.Method == http.MethodHead || !takesGzip(r.Header.Get("Accept-Encoding")) {
			next.ServeHTTP(w, r)
			return
		}
		z := &zipped{ResponseWriter: w, slots: slots}
		defer z.end()
		next.ServeHTTP(z, r)
	})
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

// zipped compresses an answer, if its type is worth it and a compressor is free.
type zipped struct {
	http.ResponseWriter
	slots chan struct{}
	begun bool
	out   *gzip.Writer // nil: not compressed
}

var zippers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// Unwrap is for [http.ResponseController].
func (z *zipped) Unwrap() http.ResponseWriter { return z.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (z *zipped) WriteHeader(code int) {
	if !z.begun {
		z.begun = true
		z.begin(code)
	}
	z.ResponseWriter.WriteHeader(code)
}

func (z *zipped) begin(code int) {
	h := z.Header()
	if code == http.StatusNoContent || code == http.StatusNotModified || h.Get("Content-Encoding") != "" {
		return
	}
	switch kind, _, _ := strings.Cut(h.Get("Content-Type"), ";"); kind {
	case "application/json", "text/html", "text/plain":
	default:
		return
	}
	select {
	case z.slots <- struct{}{}:
	default:
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Del("Content-Length")
	z.out = zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool holds no other type
	z.out.Reset(z.ResponseWriter)
}

// Write implements [io.Writer].
func (z *zipped) Write(p []byte) (int, error) {
	if !z.begun {
		z.WriteHeader(http.StatusOK)
	}
	if z.out == nil {
		return z.ResponseWriter.Write(p)
	}
	return z.out.Write(p)
}

// FlushError is for [http.ResponseController].
func (z *zipped) FlushError() error {
	if z.out != nil {
		if err := z.out.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(z.ResponseWriter).Flush()
}

// end writes what is left and gives the compressor back.
func (z *zipped) end() {
	if z.out == nil {
		return
	}
	_ = z.out.Close() // the reader is gone
	z.out.Reset(io.Discard)
	zippers.Put(z.out)
	z.out = nil
	<-z.slots
}
