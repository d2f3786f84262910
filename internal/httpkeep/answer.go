// Package httpkeep keeps what an HTTP handler answers, for those who send it later or not at all.
package httpkeep

import (
	"bytes"
	"context"
	"net/http"
)

type noEffectKey struct{}

// WithNoEffect is ctx with what is called when a handler says that it did nothing.
func WithNoEffect(ctx context.Context, note func()) context.Context {
	return context.WithValue(ctx, noEffectKey{}, note)
}

// NoEffect says to whoever keeps the answer that the handler did nothing.
func NoEffect(ctx context.Context) {
	if note, ok := ctx.Value(noEffectKey{}).(func()); ok {
		note()
	}
}

// Answer is an [http.ResponseWriter] that sends nothing. The zero value is ready to use, by one handler.
type Answer struct {
	// Begun, where it is set, is called when the status is known: the header counts as it is then.
	Begun func()

	header http.Header
	status int // 0: not said yet
	body   bytes.Buffer
}

// Outside gives the handler a copy of the header as those outside of it have left it. Else a field that it adds would
// replace theirs. Call it before the handler.
func (a *Answer) Outside(header http.Header) { a.header = header.Clone() }

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements [http.ResponseWriter]. The first status counts. Informational ones are left out.
func (a *Answer) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	a.status = status
	if a.Begun != nil {
		a.Begun()
	}
}

// Write implements [http.ResponseWriter].
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Status is what the handler has said, and 200 when it has said nothing.
func (a *Answer) Status() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

// Said says whether the handler has said a status, or has written.
func (a *Answer) Said() bool { return a.status != 0 }

// Body is what it has written. It is the answer's own.
func (a *Answer) Body() []byte { return a.body.Bytes() }
