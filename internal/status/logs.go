package status

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
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

// positionHeader goes with each answer.
const positionHeader = api.LogPositionHeader

// output is a part of what a task wrote.
type output struct{ text, position string }

func (o output) write(w http.ResponseWriter) {
	if o.position != "" {
		w.Header().Set(positionHeader, o.position)
	}
	writeText(w, o.text)
}

// get answers with the last lines that the task wrote, as plain text. Another owner is asked for them.
func (l taskLogs) get(w http.ResponseWriter, r *http.Request) *Error {
	if why := outputHidden(r); why != nil {
		return why
	}
	q, bad := parseLogQuery(r.URL.Query())
	if bad != nil {
		return bad
	}
	snapshot, t, bad := l.server.findTask(r)
	if bad != nil {
		return bad
	}
	if found, ok := l.kept(snapshot, t.Key, q); ok {
		found.write(w)
		return nil
	}
	switch {
	case t.Instance == "":
		return httperr.NotFound("%s does not run now, so its output is not kept", t.Key)
	case t.Instance == snapshot.Status.Instance || r.Header.Get(forwarded) != "":
		return httperr.NotFound("%s keeps no output of %s", snapshot.Status.Instance, t.Key)
	}
	owner := snapshot.session(t)
	if owner == nil || owner.Address == "" {
		return httperr.Unavailable(
			api.ReasonOwnerUnreachable, "%s runs %s and has no address that is known here", t.Instance, t.Key,
		)
	}
	found, err := l.peers.output(r, owner, t, q)
	switch {
	case errors.Is(err, errNotShown):
		return httperr.Unavailable(api.ReasonOwnerUnreachable, "%s runs %s and does not show its output to this "+
			"replica: "+
			"that takes server.logs there, or the same admin.tokensFile and clocks that differ by less than a minute",
			t.Instance, t.Key)
	case err != nil:
		l.log.V(1).Info("The owner of a task did not give its output",
			"peer", t.Instance, "key", t.Key, "error", err.Error())
		return httperr.Unavailable(
			api.ReasonOwnerUnreachable, "%s runs %s and did not answer; try again", t.Instance, t.Key,
		)
	}
	found.write(w)
	return nil
}

// kept is what this replica keeps of the task's output. A position of another process, or of one that has started
// again, says nothing about it: then all of the tail is new.
func (l taskLogs) kept(s *Snapshot, key string, q LogQuery) (output, bool) {
	if l.here == nil {
		return output{}, false
	}
	lines, last, ok := l.here.Tail(key, q.Tail)
	if !ok {
		return output{}, false
	}
	process := s.Status.Instance
	if i := s.Instance(process); i != nil {
		process += "@" + strconv.FormatInt(i.StartedAt.UnixMilli(), 10)
	}
	if before, n := splitPosition(q.After); before == process && n <= last {
		lines = lines[len(lines)-int(min(last-n, uint64(len(lines)))):] //nolint:gosec // G115: at most len(lines)
	}
	return output{joinLines(lines), process + "#" + strconv.FormatUint(last, 10)}, true
}

// splitPosition reads a position: the process that kept the output, empty for none, and how many lines it had kept.
func splitPosition(position string) (process string, lines uint64) {
	i := strings.LastIndex(position, "#")
	if i < 0 {
		return "", 0
	}
	n, err := strconv.ParseUint(position[i+1:], 10, 64)
	if err != nil {
		return "", 0
	}
	return position[:i], n
}

// PositionOf says which process kept the output that ends at the position, and on which instance; empty: not known.
func PositionOf(position string) (process, instance string) {
	process, _ = splitPosition(position)
	instance, _, _ = strings.Cut(process, "@")
	return process, instance
}

// errNotShown says that another replica does not show output to this one.
var errNotShown = errors.New("it does not show output")

// peers are the other replicas.
type peers struct {
	client *http.Client
	scheme string
	vouch  func(r *http.Request, instance, target string) string
}

// peers asks as configured. Where an address leads is what a member says of itself: it may not lead on elsewhere. No
// proxy of the environment comes between replicas: it is for the world outside, and would see what tasks write.
func (c Config) peers() peers {
	client := *c.Peers
	if client.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the library's own
		transport.Proxy = nil
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return peers{&client, c.PeerScheme, c.Vouch}
}

// ProofHeader carries what [Config.Vouch] says.
const ProofHeader = "Shardctl-Proof"

// output asks the owner for what a task of its own wrote, because of a request to this replica.
func (p peers) output(r *http.Request, owner *api.Instance, t *api.Task, q LogQuery) (output, error) {
	address, err := p.base(owner.Address)
	if err != nil {
		return output{}, fmt.Errorf("ask %s: %w", owner.Name, err)
	}
	target := logsPath(t.Group, t.Name) + "?" + q.values().Encode()
	//nolint:gosec // the address is what a member of the cluster says of itself in the store
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address+target, http.NoBody)
	if err != nil {
		return output{}, fmt.Errorf("ask %s: %w", address, err)
	}
	req.Header.Set(forwarded, "1")
	if p.vouch != nil {
		req.Header.Set(ProofHeader, p.vouch(r, owner.Name, target))
	}
	resp, err := p.client.Do(req) //nolint:gosec // as above
	if err != nil {
		return output{}, fmt.Errorf("ask %s: %w", address, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return output{}, fmt.Errorf("ask %s: %w", address, errNotShown)
	default:
		return output{}, fmt.Errorf("ask %s: %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return output{}, fmt.Errorf("read from %s: %w", address, err)
	}
	return output{string(text), resp.Header.Get(positionHeader)}, nil
}

// base is where a replica with that address is asked. An address with more than a host would have another path be asked
// than that of the output.
func (p peers) base(address string) (string, error) {
	base := strings.TrimSuffix(address, "/")
	if !strings.Contains(base, "://") {
		base = p.scheme + "://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || base != u.Scheme+"://"+u.Host {
		return "", fmt.Errorf("address %.200q: want HOST:PORT, http://HOST:PORT or https://HOST:PORT", address)
	}
	return base, nil
}

// session is the very instance that owns the task, or the one of its name.
func (s *Snapshot) session(t *api.Task) *api.Instance {
	for i := range s.Instances {
		if s.Instances[i].Session == t.Session && t.Session != "" {
			return &s.Instances[i]
		}
	}
	return s.Instance(t.Instance)
}

// LogQuery selects from what a task wrote.
type LogQuery struct {
	Tail  int    // at most so many lines, up to 1000, the newest; 0: 1000
	After string // a position that an earlier answer gave: only what was written since; empty: all
}

func (q LogQuery) values() url.Values {
	v := url.Values{}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	if q.After != "" {
		v.Set("after", q.After)
	}
	return v
}

func logsPath(group, name string) string {
	return "/api/v1/tasks/" + url.PathEscape(group) + "/" + url.PathEscape(name) + "/logs"
}

// maxPosition bounds a position, in bytes: the name of an instance and two numbers.
const maxPosition = 320

func parseLogQuery(values url.Values) (LogQuery, *Error) {
	for _, name := range sortedKeys(values) {
		if name != "tail" && name != "after" {
			return LogQuery{}, httperr.Invalid(
				api.FieldError{Field: name, Message: "not a parameter of logs; it takes tail and after"},
			)
		}
	}
	q := LogQuery{Tail: maxTail, After: values.Get("after")}
	if len(q.After) > maxPosition || strings.ContainsFunc(q.After, unicode.IsControl) {
		return q, httperr.Invalid(
			api.FieldError{Field: "after", Message: "not a position that an answer gave in " + positionHeader},
		)
	}
	text := values.Get("tail")
	if text == "" {
		return q, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxTail {
		return q, httperr.Invalid(
			api.FieldError{Field: "tail", Message: fmt.Sprintf("%q is not a number from 1 to %d", text, maxTail)},
		)
	}
	q.Tail = n
	return q, nil
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
