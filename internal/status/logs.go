package status

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
)

const (
	maxTail   = 1000      // lines that a replica keeps of a task
	maxOutput = 512 << 10 // bytes taken from another replica, twice what one keeps

	// forwarded marks a request from another replica. It is answered here or not at all, so that two replicas that
	// disagree on the owner do not send it round in circles.
	forwarded = "Shardctl-Forwarded"
)

// taskLogs answers with what tasks wrote lately.
type taskLogs struct {
	server *server
	here   LogSource // nil: this replica keeps no output
	peers  peers
	log    logr.Logger
}

// get answers with the last lines that the task wrote, as plain text. Another owner is asked for them.
func (l taskLogs) get(w http.ResponseWriter, r *http.Request) *Error {
	tail, bad := parseTail(r.URL.Query())
	if bad != nil {
		return bad
	}
	t, bad := l.server.findTask(r)
	if bad != nil {
		return bad
	}
	if l.here != nil {
		if lines, ok := l.here.Tail(t.Key, tail); ok {
			writeText(w, joinLines(lines))
			return nil
		}
	}
	snapshot, bad := l.server.snapshot()
	switch {
	case bad != nil:
		return bad
	case t.Instance == "":
		return notFound("%s does not run now, so its output is not kept", t.Key)
	case t.Instance == snapshot.Status.Instance || r.Header.Get(forwarded) != "":
		return notFound("%s keeps no output of %s", snapshot.Status.Instance, t.Key)
	}
	owner := snapshot.session(t)
	if owner == nil || owner.Address == "" {
		return unavailable(
			ReasonOwnerUnreachable, "%s runs %s and has no address that is known here", t.Instance, t.Key,
		)
	}
	text, err := l.peers.output(r.Context(), owner.Address, t, tail)
	if err != nil {
		l.log.V(1).Info("The owner of a task did not give its output",
			"instance", t.Instance, "key", t.Key, "error", err.Error())
		return unavailable(ReasonOwnerUnreachable, "%s runs %s and did not answer; try again", t.Instance, t.Key)
	}
	writeText(w, text)
	return nil
}

// peers are the other replicas.
type peers struct {
	client *http.Client
	scheme string
}

// output asks the replica at that address for what a task of its own wrote.
func (p peers) output(ctx context.Context, address string, t *Task, tail int) (string, error) {
	if !strings.Contains(address, "://") {
		address = p.scheme + "://" + address
	}
	u := fmt.Sprintf("%s/api/v1/tasks/%s/%s/logs?tail=%d", strings.TrimSuffix(address, "/"),
		url.PathEscape(t.Group), url.PathEscape(t.Name), tail)
	//nolint:gosec // the address is what a member of the cluster says of itself in the store
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", address, err)
	}
	req.Header.Set(forwarded, "1")
	resp, err := p.client.Do(req) //nolint:gosec // as above
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", address, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask %s: %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return "", fmt.Errorf("read from %s: %w", address, err)
	}
	return string(text), nil
}

// session is the very instance that owns the task, or the one of its name.
func (s *Snapshot) session(t *Task) *Instance {
	for i := range s.Instances {
		if s.Instances[i].Session == t.Session && t.Session != "" {
			return &s.Instances[i]
		}
	}
	return s.Instance(t.Instance)
}

func parseTail(values url.Values) (int, *Error) {
	for _, name := range sortedKeys(values) {
		if name != "tail" {
			return 0, invalid(FieldError{name, "not a parameter of logs; it takes tail"})
		}
	}
	text := values.Get("tail")
	if text == "" {
		return maxTail, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxTail {
		return 0, invalid(FieldError{"tail", fmt.Sprintf("%q is not a number from 1 to %d", text, maxTail)})
	}
	return n, nil
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
