package status

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/web"
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

// get answers with the last lines that the task wrote, as plain text. Another owner is asked for them.
func (l taskLogs) get(w http.ResponseWriter, r *http.Request) *web.Error {
	if why := outputHidden(r); why != nil {
		return why
	}
	values, bad := parameters(r)
	if bad != nil {
		return bad
	}
	if errs := checkParameters(values, "logs", logParams); len(errs) > 0 {
		return web.Invalid(errs...)
	}
	q, bad := parseLogQuery(values)
	if bad != nil {
		return bad
	}
	snapshot, t, bad := l.server.findTask(r)
	if bad != nil {
		return bad
	}
	if found, ok := l.local(snapshot, t, q); ok {
		return found.send(w, r)
	}
	owner, bad := outputOwner(snapshot, t, q)
	switch here := snapshot.Status.Instance; {
	case bad != nil:
		return bad
	case owner.Name == here || r.Header.Get(forwarded) != "":
		return web.NotFound("%s keeps no output of %s", here, t.Key)
	}
	found, err := l.peers.fetch(r, owner, t, q)
	switch {
	case errors.Is(err, errNotShown):
		return web.Unavailable(api.ReasonOwnerUnreachable, "%s does not show the output of %s to this replica: "+
			"that takes server.logs there, or the same admin.tokensFile and clocks that differ by less than a minute",
			owner.Name, t.Key)
	case err != nil:
		l.log.V(1).Info("The owner of a task did not give its output",
			"peer", owner.Name, "key", t.Key, "error", err.Error())
		return web.Unavailable(
			api.ReasonOwnerUnreachable, "%s did not answer for the output of %s; try again", owner.Name, t.Key,
		)
	}
	return found.send(w, r)
}

// outputOwner is the instance that is asked for the output: the task's owner, unless the query names another one.
func outputOwner(s *snapshot.Cluster, t *api.Task, q api.LogOptions) (*api.Instance, *web.Error) {
	name, i := t.Instance, ownerOf(s, t)
	if q.Instance != "" {
		name, i = q.Instance, s.Instance(q.Instance)
	}
	switch {
	case name == "":
		return nil, web.NotFound("%s does not run now, so its output is not kept", t.Key)
	case i != nil && (i.State == api.Dead || i.State == api.Left), i == nil && q.Instance != "":
		return nil, web.NotFound("%q is not there, so what %s wrote on it is not kept", name, t.Key)
	case i == nil || i.Address == "" && name != s.Status.Instance:
		return nil, web.Unavailable(
			api.ReasonOwnerUnreachable, "%s has no address that is known here, to ask it for the output of %s", name,
			t.Key,
		)
	}
	return i, nil
}

// errNotShown says that another replica does not show output to this one.
var errNotShown = errors.New("it does not show output")

// peers are the other replicas.
type peers struct {
	client *http.Client
	scheme string
	vouch  func(r *http.Request, instance, target string) string
}

// ProofHeader carries what [Config.Vouch] says.
const ProofHeader = "Shardctl-Proof"

// fetch asks the owner for what a task of its own wrote, because of a request to this replica.
func (p peers) fetch(r *http.Request, owner *api.Instance, t *api.Task, q api.LogOptions) (output, error) {
	address, err := p.base(owner.Address)
	if err != nil {
		return output{}, fmt.Errorf("ask %s: %w", owner.Name, err)
	}
	target := logsPath(t.Group, t.Name) + "?" + q.Values().Encode()
	// The address is what a member of the cluster says of itself in the store.
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address+target, http.NoBody)
	if err != nil {
		return output{}, fmt.Errorf("ask %s: %w", address, err)
	}
	req.Header.Set(forwarded, "1")
	if p.vouch != nil {
		req.Header.Set(ProofHeader, p.vouch(r, owner.Name, target))
	}
	resp, err := p.client.Do(req)
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
	return output{string(text), resp.Header}, nil
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

// ownerOf is the very instance that owns the task, or the one of its name.
func ownerOf(s *snapshot.Cluster, t *api.Task) *api.Instance {
	for i := range s.Instances {
		if s.Instances[i].Session == t.Session && t.Session != "" {
			return &s.Instances[i]
		}
	}
	return s.Instance(t.Instance)
}

func logsPath(group, name string) string {
	return "/api/v1/tasks/" + url.PathEscape(group) + "/" + url.PathEscape(name) + "/logs"
}

// maxPosition bounds a position, in bytes: the name of an instance and two numbers.
const maxPosition = 320

var logParams = []string{"after", "instance", "previous", "tail", "timestamps"}

func parseLogQuery(values url.Values) (api.LogOptions, *web.Error) {
	q := api.LogOptions{Tail: maxTail, After: values.Get("after"), Instance: values.Get("instance")}
	if err := checkLength("instance", q.Instance); err != nil {
		return q, web.Invalid(api.FieldError{Field: "instance", Message: err.Error()})
	}
	if len(q.After) > maxPosition {
		return q, web.Invalid(
			api.FieldError{Field: "after", Message: "not a position that an answer gave in " + api.LogPositionHeader},
		)
	}
	for name, on := range map[string]*bool{"previous": &q.Previous, "timestamps": &q.Timestamps} {
		switch text := values.Get(name); text {
		case "", "false":
		case "true":
			*on = true
		default:
			return q, web.Invalid(
				api.FieldError{Field: name, Message: fmt.Sprintf("%q is neither true nor false", text)},
			)
		}
	}
	text := values.Get("tail")
	if text == "" {
		return q, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxTail {
		return q, web.Invalid(
			api.FieldError{Field: "tail", Message: fmt.Sprintf("%q is not a number from 1 to %d", text, maxTail)},
		)
	}
	q.Tail = n
	return q, nil
}

// output is a part of what a task wrote. The header says which, and on which instance.
type output struct {
	text   string
	header http.Header
}

// outputHeaders are those of an output that another replica gives.
var outputHeaders = []string{
	api.LogPositionHeader, api.LogInstanceHeader, api.LogTokenHeader, api.LogEndedHeader,
}

func (o output) send(w http.ResponseWriter, r *http.Request) *web.Error {
	for _, name := range outputHeaders {
		if value := o.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	return sendText(w, r, mediaText, o.text)
}

// local is what this replica keeps of the task's output. What it wrote here before others ran it does not count, unless
// the query asks for this instance.
func (l taskLogs) local(s *snapshot.Cluster, t *api.Task, q api.LogOptions) (output, bool) {
	instance := s.Status.Instance
	if l.here == nil || q.Instance != "" && q.Instance != instance {
		return output{}, false
	}
	kept, ok := l.here.Output(t.Key)
	if !ok || !kept.Held && kept.Token < t.FencingToken && q.Instance == "" {
		return output{}, false
	}
	process := instance
	if i := s.Instance(instance); i != nil {
		process += "@" + strconv.FormatInt(i.StartedAt.UnixMilli(), 10)
	}
	var last uint64
	if n := len(kept.Lines); n > 0 {
		last = kept.Lines[n-1].Seq
	}
	header := http.Header{}
	header.Set(api.LogPositionHeader, process+"#"+strconv.FormatUint(last, 10))
	header.Set(api.LogInstanceHeader, instance)
	header.Set(api.LogTokenHeader, strconv.FormatInt(kept.Token, 10))
	if !kept.Held {
		header.Set(api.LogEndedHeader, "true")
	}
	return output{logText(selectLines(&kept, q, process, last), q.Timestamps), header}, true
}

// selectLines are the lines of the run before the newest, or those after a position, or all since the task was claimed
// here last. A position of another process, or of one that has started again, says nothing about this one.
func selectLines(kept *taskrun.Output, q api.LogOptions, process string, last uint64) []taskrun.Line {
	before, n := splitPosition(q.After)
	var wanted func(taskrun.Line) bool
	switch {
	case q.Previous:
		var previous int64
		for _, line := range kept.Lines {
			if line.Token < kept.Token {
				previous = max(previous, line.Token)
			}
		}
		wanted = func(line taskrun.Line) bool { return line.Token == previous && previous > 0 }
	case before == process && n <= last:
		wanted = func(line taskrun.Line) bool { return line.Seq > n }
	default:
		wanted = func(line taskrun.Line) bool { return line.Token >= kept.Claim }
	}
	lines := slices.DeleteFunc(kept.Lines, func(line taskrun.Line) bool { return !wanted(line) })
	return lines[max(0, len(lines)-q.Tail):]
}

// logText is the text of lines, each with its time where that is wanted.
func logText(lines []taskrun.Line, timestamps bool) string {
	var text strings.Builder
	for _, line := range lines {
		if timestamps {
			text.WriteString(line.Time.UTC().Format(time.RFC3339Nano) + " ")
		}
		text.WriteString(line.Text + "\n")
	}
	return text.String()
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

// ProcessOf says which process kept the output that ends at the position; empty: not known.
func ProcessOf(position string) string {
	process, _ := splitPosition(position)
	return process
}
