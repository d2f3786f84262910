package dev

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// headerLimit is how long a replica may take to begin an answer. One that was frozen still takes connections.
const headerLimit = 2 * time.Second

// newProxy passes requests on to the first of the addresses, as host:port, that answers. They are asked for again with
// each request, and should be those of live replicas. Host and Origin are the client's: by them a replica refuses what
// other websites ask for.
func newProxy(addresses func() []string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
		},
		Transport: &failover{
			addresses: addresses,
			transport: &http.Transport{
				DialContext:           (&net.Dialer{Timeout: headerLimit}).DialContext,
				ResponseHeaderTimeout: headerLimit,
				IdleConnTimeout:       10 * time.Second,
				DisableCompression:    true, // bytes go through as they come
			},
		},
		FlushInterval: -1, // events are not held back
		// A replica that dies in the middle of an answer is what this is for: no line about it on the screen.
		ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("Retry-After", "1")
			http.Error(
				w, "No replica answers at the moment ("+err.Error()+"). Try again in a second.",
				http.StatusServiceUnavailable,
			)
		},
	}
}

// failover is a transport that tries one address after the other.
type failover struct {
	addresses func() []string
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request with a body is tried once: the body is used up by that.
func (f *failover) RoundTrip(r *http.Request) (*http.Response, error) {
	err := fmt.Errorf("no replica runs")
	for _, a := range f.addresses() {
		try := r.Clone(r.Context())
		try.URL.Host = a
		var resp *http.Response
		if resp, err = f.transport.RoundTrip(try); err == nil {
			return resp, nil
		}
		if r.Body != nil && r.Body != http.NoBody || r.Context().Err() != nil {
			break
		}
	}
	return nil, err
}
