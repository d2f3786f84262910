package status

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxTail   = 1000      // lines that a replica keeps of a task
	maxOutput = 512 << 10 // bytes taken from another replica, twice what one keeps

	// forwarded marks a request from another replica: it is answered here or not at all, so that two replicas that
	// disagree on the owner do not send it round in circles.
	forwarded = "Shardctl-Forwarded"
)

// logs answers with the last lines that the task wrote, as plain text. Another owner is asked for them.
func (s *server) logs(w http.ResponseWriter, r *http.Request) *Error {
	tail, bad := parseTail(r.URL.Query())
	if bad != nil {
		return bad
	}
	t, bad := s.findTask(r)
	if bad != nil {
		return bad
	}
	if s.Logs != nil {
		if lines, ok := s.Logs.Tail(t.Key, tail); ok {
			writeText(w, joinLines(lines))
			return nil
		}
	}
	snapshot, bad := s.snapshot()
	switch {
	case bad != nil:
		return bad
	case t.Instance == "":
		return notFound("nobody runs %s now, so nobody keeps its output", t.Key)
	case t.Instance == snapshot.Status.Instance || r.Header.Get(forwarded) != "":
		return notFound("%s keeps no output of %s", snapshot.Status.Instance, t.Key)
	}
	owner := snapshot.session(t)
	if owner == nil || owner.Address == "" {
		return unavailable(ReasonOwnerUnreachable, "%s runs %s and has no address that is known here", t.Instance, t.Key)
	}
	text, err := s.askOwner(r.Context(), owner.Address, t, tail)
	if err != nil {
		s.Logger.V(1).Info("The owner of a task did not give its output",
			"instance", t.Instance, "key", t.Key, "error", err.Error())
		return unavailable(ReasonOwnerUnreachable, "%s runs %s and did not answer; try again", t.Instance, t.Key)
	}
	writeText(w, text)
	return nil
}

func (s *server) askOwner(ctx context.Context, address string, t *Task, tail int) (string, error) {
	if !strings.Contains(address, "://") {
		address = s.PeerScheme + "://" + address
	}
	u := fmt.Sprintf("%s/api/v1/tasks/%s/%s/logs?tail=%d", strings.TrimSuffix(address, "/"),
		url.PathEscape(t.Group), url.PathEscape(t.Name), tail)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody) //nolint:gosec // the address is what a member of the cluster says of itself in the store
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", address, err)
	}
	req.Header.Set(forwarded, "1")
	resp, err := s.Peers.Do(req) //nolint:gosec // as above
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", address, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or given up
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
