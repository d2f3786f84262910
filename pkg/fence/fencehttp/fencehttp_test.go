package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencehttp"
	"github.com/shardctl/shardctl/pkg/fence/fencetest"
	"github.com/shardctl/shardctl/test/stale"
)

func TestMain(m *testing.M) {
	stale.Main(kinds)
	os.Exit(m.Run())
}

// client writes to a server by POST, under a claim or without one.
type client struct{ url string }

var kinds = stale.Kinds{
	"http": func(_ context.Context, target string) (stale.Place, error) { return client{target}, nil },
}

func (c client) send(ctx context.Context, path string, header http.Header, text string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		answer := new(api.Error)
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
			return "", fmt.Errorf("%s: %w", response.Status, err)
		}
		return "", answer
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func headers(key string, token int64) http.Header {
	return http.Header{fencehttp.HeaderKey: {key}, fencehttp.HeaderToken: {fmt.Sprint(token)}}
}

// translated makes an answer the error that it stands for.
func translated(err error) error {
	switch {
	case errors.Is(err, &api.Error{Status: http.StatusConflict, Reason: fencehttp.ReasonOldToken}):
		return fmt.Errorf("%w: %w", fence.ErrOld, err)
	case errors.Is(err, &api.Error{Status: http.StatusBadRequest, Reason: api.ReasonInvalid}):
		return fmt.Errorf("%w: %w", fence.ErrInvalid, err)
	}
	return err
}

func (c client) Write(ctx context.Context, claim fence.Claim, text string) error {
	_, err := c.send(ctx, "/fenced", headers(claim.Key, claim.Token), text)
	return translated(err)
}

func (c client) Bare(ctx context.Context, text string) error {
	_, err := c.send(ctx, "/bare", http.Header{}, text)
	return err
}

func (c client) Read(ctx context.Context) (string, error) {
	return c.send(ctx, "/read", http.Header{}, "")
}

func TestStaleOwnerIsRefused(t *testing.T) {
	var fences fence.Memory
	var mu sync.Mutex
	var stands string
	write := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		stands = string(body)
		w.WriteHeader(http.StatusNoContent)
	})
	mux := http.NewServeMux()
	mux.Handle("/fenced", fencehttp.Handler(&fences, write))
	mux.Handle("/bare", write)
	mux.HandleFunc("/read", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, stands)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	stale.Run(t, kinds, "http", server.URL)
}

// Keys of the suite are not all fit for a header, and some claims are shared: the header Mode says so.
func TestHandler(t *testing.T) {
	escaped := fencehttp.ClaimBy(func(r *http.Request) (fence.Claim, error) {
		c, err := fencehttp.Claim(r.Header)
		if err != nil {
			return c, err
		}
		c.Key, err = url.PathUnescape(c.Key)
		c.Shared = r.Header.Get("Mode") == "shared"
		return c, err
	})
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		fences := new(fence.Memory)
		var mu sync.Mutex
		logs := map[string][]string{}
		server := httptest.NewServer(fencehttp.Handler(fences,
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				entry, _ := io.ReadAll(r.Body)
				claim, _ := fence.FromContext(r.Context())
				mu.Lock()
				defer mu.Unlock()
				logs[claim.Key] = append(logs[claim.Key], string(entry))
			}), escaped))
		t.Cleanup(server.Close)
		return fencetest.Subject{
			Write: func(ctx context.Context, c fence.Claim, entry string) error {
				header := headers(url.PathEscape(c.Key), c.Token)
				if c.Shared {
					header.Set("Mode", "shared")
				}
				_, err := client{server.URL}.send(ctx, "", header, entry)
				return translated(err)
			},
			Log: func(_ context.Context, key string) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				return logs[key], nil
			},
			Fence: fences,
		}
	})
}
