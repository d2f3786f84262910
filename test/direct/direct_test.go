package direct_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/test/direct"
)

// An answer comes part by part, in the time of a bubble, and the handler learns that nobody reads on.
func TestAnswersAreStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan struct{})
		c := direct.Client(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Host", r.Host)
			w.WriteHeader(http.StatusAccepted)
			for range 2 {
				_, _ = io.WriteString(w, r.Method+"\n")
				w.(http.Flusher).Flush()
				time.Sleep(time.Hour)
			}
			<-r.Context().Done()
			close(left)
		}))
		began := time.Now()
		resp, err := c.Post("http://name/path", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-Host") != "name" {
			t.Errorf("%s %v", resp.Status, resp.Header)
		}
		lines := bufio.NewScanner(resp.Body)
		for i := range 2 {
			if !lines.Scan() || lines.Text() != "POST" || time.Since(began) != time.Duration(i)*time.Hour {
				t.Errorf("%q after %v", lines.Text(), time.Since(began))
			}
		}
		_ = resp.Body.Close()
		<-left
	})
}

func TestAnswersWithoutABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, err := direct.Client(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).Get("http://a/")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if text, err := io.ReadAll(resp.Body); err != nil || len(text) > 0 || resp.StatusCode != http.StatusOK {
			t.Errorf("%s %q %v", resp.Status, text, err)
		}
	})
}

// A request that is given up does not wait for the handler.
func TestRequestsEndWithTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := direct.Client(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		c.Timeout = time.Minute
		began := time.Now()
		resp, err := c.Get("http://a/")
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
