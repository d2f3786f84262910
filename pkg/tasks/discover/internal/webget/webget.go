// Package webget is what listers that ask over HTTP have in common.
package webget

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
)

// StatusError is an answer with another status than 200.
type StatusError struct {
	Code int
	Text string // as "503 Service Unavailable"
}

// Error implements error.
func (s StatusError) Error() string { return fmt.Sprintf("status %s, want 200", s.Text) }

// Client asks over HTTP. The zero value is ready to use; it may be used concurrently.
type Client struct{ kept tasks.Clients }

// Body sends the request once and reads the body of the answer, at most [discover.MaxSize] bytes. A status other than
// 200 is a [StatusError]. No error holds the URL. The authorities of caFile are trusted, or the system's where that is
// empty: field says where it is written, and variables in it are replaced.
func (c *Client) Body(request *http.Request, env discover.Env, field, caFile string) ([]byte, error) {
	file, err := env.Expand(field, caFile)
	if err != nil {
		return nil, err
	}
	client, err := c.kept.Client(file)
	if err != nil {
		return nil, err
	}
	return body(client, request)
}

func body(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request) //nolint:gosec // G704: the configuration names who is asked
	if err != nil {
		return nil, Plainly(request.Context(), err)
	}
	defer func() { _ = response.Body.Close() }() // the answer is read
	if response.StatusCode != http.StatusOK {
		return nil, StatusError{response.StatusCode, response.Status}
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, discover.MaxSize+1))
	if err != nil {
		return nil, Plainly(request.Context(), err)
	}
	if len(content) > discover.MaxSize {
		return nil, fmt.Errorf("the answer is larger than %d MiB, the most that is read", discover.MaxSize>>20)
	}
	return content, nil
}

// Plainly is an error of a request less the URL, in which there may be what a variable brought in. Where ctx has ended
// it is the reason for that.
func Plainly(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return endpoint.WithoutURL(err)
}
