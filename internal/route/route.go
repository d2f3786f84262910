// Package route forwards requests to the owners of keys: /route/GROUP/NAME/PATH goes to /PATH at the address that the
// owner has given. What is known of owners is a hint: one that does not hold the key answers 421.
package route

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// Path is what paths begin with that are forwarded.
const Path = "/route/"

// The limits of requests that are forwarded.
const (
	maxBody           = 32 << 20         // bytes
	maxKept           = 64 << 10         // bytes of a body that can be sent again
	maxTime           = 30 * time.Second // of a request and its answer
	maxHops           = 3                // forwards of one request
	maxAtOnce         = 512              // requests, without those over loopback
	maxAtOnceOfClient = 256
	maxWait           = time.Second // for another owner
	maxDial           = 2 * time.Second
	maxIdle           = 64 // connections kept to an owner
)

// hopsHeader counts how often a request was forwarded.
const hopsHeader = "Shardctl-Hops"

// Config is what a handler needs. Only Source is required.
type Config struct {
	Source Source
	// Known says whether a bearer token is one of shardctl's own, which owners must not see. Nil: none is.
	Known func(token string) bool
	// Done is called after each request with the status of its answer; nil: nothing is.
	Done func(code int, took time.Duration)
}

type forwarder struct {
	cfg      Config
	inFlight web.InFlight
	proxy    *httputil.ReverseProxy
}

// New returns the handler of [Path]. It may be used from many goroutines.
func New(cfg Config) http.Handler {
	f := &forwarder{cfg: cfg}
	f.inFlight.Most, f.inFlight.MostOfOne = maxAtOnce, maxAtOnceOfClient
	f.proxy = &httputil.ReverseProxy{
		Rewrite: f.rewrite, ModifyResponse: sandbox, ErrorHandler: answerError, ErrorLog: log.New(io.Discard, "", 0),
		Transport: client.NewTransport(owners{cfg.Source}, client.RouteOptions{Wait: maxWait, Base: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: maxDial}).DialContext,
			MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, DisableCompression: true,
		}}),
	}
	return f
}

// Over has forward answer what is below [Path], and next the rest.
func Over(next, forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.EscapedPath(), Path) {
			forward.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP forwards a request.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	noted, begin := &notedWriter{ResponseWriter: w, code: http.StatusOK}, time.Now()
	if f.cfg.Done != nil {
		defer func() { f.cfg.Done(noted.code, time.Since(begin)) }()
	}
	web.Handler(f.forward).ServeHTTP(noted, r)
}

// target is what a path is about.
type target struct {
	key, path string // the path as it is written
}

type targetKey struct{}

func (f *forwarder) forward(w http.ResponseWriter, r *http.Request) *web.Error {
	if r.Method == http.MethodTrace || r.Method == http.MethodConnect {
		return web.NotAllowed("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT", "%s is not forwarded", r.Method)
	}
	to, bad := targetOf(r)
	if bad != nil {
		return bad
	}
	leave, bad := f.enter(r)
	if bad != nil {
		return bad
	}
	defer leave()
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), targetKey{}, to), maxTime)
	defer cancel()
	r = r.WithContext(ctx)
	if err := keepBody(w, r); err != nil {
		return errorOf(err)
	}
	f.proxy.ServeHTTP(w, r)
	return nil
}

// targetOf reads the path of a request, and refuses those that must not be forwarded.
func targetOf(r *http.Request) (target, *web.Error) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.EscapedPath(), Path), "/", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return target{}, web.NotFound("%.200s: want %sGROUP/NAME/PATH", r.URL.Path, Path)
	}
	group, err := url.PathUnescape(parts[0])
	name, err2 := url.PathUnescape(parts[1])
	if err != nil || err2 != nil {
		return target{}, web.NotFound("%.200s: want %sGROUP/NAME/PATH", r.URL.Path, Path)
	}
	if hopsOf(r) >= maxHops {
		return target{}, web.NewError(http.StatusLoopDetected, api.ReasonTooManyHops,
			"the request was forwarded %d times: its owners send it back to %s", maxHops, Path)
	}
	if !access.SameOrigin(r) {
		return target{}, web.NewError(
			http.StatusForbidden, api.ReasonForbidden, "requests of pages of other origins are not forwarded",
		)
	}
	return target{key: group + "/" + name, path: "/" + strings.Join(parts[2:], "")}, nil
}

// hopsOf is how often a request was forwarded; as often as may be where that cannot be read.
func hopsOf(r *http.Request) int {
	text := r.Header.Get(hopsHeader)
	if text == "" {
		return 0
	}
	hops, err := strconv.Atoi(text)
	if err != nil || hops < 0 {
		return maxHops
	}
	return hops
}

func (f *forwarder) enter(r *http.Request) (leave func(), bad *web.Error) {
	leave, entry := f.inFlight.Enter(web.Client(r))
	if entry == web.Entered {
		return leave, nil
	}
	bad = web.Unavailable(api.ReasonTooManyRequests, "%d requests are forwarded already; try again later", maxAtOnce)
	if entry == web.ClientFull {
		bad.Status, bad.Title = http.StatusTooManyRequests, http.StatusText(http.StatusTooManyRequests)
		bad.Detail = strconv.Itoa(maxAtOnceOfClient) + " requests from your address are forwarded already; try again later"
	}
	return nil, bad
}

// keepBody limits the body. A short one is read, so that it can be sent again.
func keepBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return &http.MaxBytesError{Limit: maxBody}
	}
	if r.Body == nil || r.ContentLength == 0 {
		return nil
	}
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	begin, err := io.ReadAll(io.LimitReader(limited, maxKept+1))
	if err != nil {
		return err
	}
	if len(begin) > maxKept {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(begin), limited)) // the server closes its own
		return nil
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(begin)), nil }
	r.Body, err = r.GetBody()
	return err
}

// rewrite makes the request to the owner. The transport adds its address, and the token.
func (f *forwarder) rewrite(p *httputil.ProxyRequest) {
	to, _ := p.In.Context().Value(targetKey{}).(target)
	p.Out.URL.Scheme, p.Out.URL.RawPath = "http", to.path
	p.Out.URL.Path, _ = url.PathUnescape(to.path) // it was unescaped once already
	p.Out.URL.RawQuery = p.In.URL.RawQuery        // the proxy leaves out what it cannot parse
	clean(p.Out.Header, f.cfg.Known)
	p.Out.Trailer = nil // servers join it with the header
	p.Out.Header.Set(api.KeyHeader, to.key)
	p.Out.Header.Set(hopsHeader, strconv.Itoa(hopsOf(p.In)+1))
	p.SetXForwarded()
}

// notedWriter remembers the status of an answer.
type notedWriter struct {
	http.ResponseWriter

	code int
}

func (w *notedWriter) WriteHeader(code int) {
	if code >= http.StatusOK { // others are not final
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (w *notedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
