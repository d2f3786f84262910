//go:build linux

package suite

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

// Get reads a path of a replica's listener, which must answer 200.
func Get(ctx context.Context, r *harness.Replica, path string) (string, error) {
	return Fetch(ctx, "http://"+r.Client.Server+path)
}

// Fetch reads a URL, which must answer 200.
func Fetch(ctx context.Context, url string) (string, error) {
	code, body, err := Ask(ctx, url)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, code, body)
	}
	return body, err
}

// Ask reads a URL, whatever the status of the answer.
func Ask(ctx context.Context, url string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}
