package config

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/httptask"
)

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // of RFC 9110: a method, the name of a header

// http reads what calls a far side. Fields with variables are checked at each request, when their values are known.
func (l *loader) http(n *node, ticks bool, lease time.Duration) httptask.Runner {
	h := httptask.Runner{
		URL:       l.text(n.get("url"), ""),
		Method:    l.text(n.get("method"), httptask.DefaultMethod),
		Headers:   l.texts(n.get("headers")),
		Body:      l.text(n.get("body"), ""),
		TokenFile: l.text(n.get("tokenFile"), ""),
		CAFile:    l.text(n.at("tls", "caFile"), ""),
	}
	h.Timeout = l.httpTimeout(n.get("timeout"), ticks, lease)
	switch at := n.get("url"); {
	case n.bad || at != nil && at.bad:
	case at == nil:
		l.addAt(n, under(n.field(), "url"), "is required")
	case !strings.Contains(h.URL, "$(") && !isWebURL(h.URL):
		// Not quoted: it may hold a password.
		l.add(at, "is not a URL to call, must be http://HOST… or https://HOST…")
	}
	if at := n.get("method"); at != nil && !strings.Contains(h.Method, "$(") && !token.MatchString(h.Method) {
		l.refuse(at, "a method such as GET, POST or PUT")
	}
	l.headers(n.get("headers"), h)
	return h
}

func isWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// httpTimeout is the limit of one request. A far side that holds a task between requests is asked every third of the
// lease, so it has to answer within that. What is left out stays 0: its default goes by the lease under which the task runs.
func (l *loader) httpTimeout(n *node, ticks bool, lease time.Duration) time.Duration {
	if ticks {
		return l.positive(n, httptask.DefaultTimeout, "")
	}
	timeout := l.positive(n, 0, "")
	if 3*timeout >= lease {
		l.refuse(n, "less than a third of lease.duration "+short(lease))
		return 0
	}
	return timeout
}

func (l *loader) headers(n *node, h httptask.Runner) {
	if n == nil {
		return
	}
	for _, e := range n.entries {
		at := &node{file: n.file, line: e.line, col: e.col}
		lower := strings.ToLower(e.name)
		switch {
		case !token.MatchString(e.name):
			l.addAt(at, under(n.field(), e.name), "is not the name of a header")
		case strings.HasPrefix(lower, "shardctl-") || lower == "idempotency-key":
			l.addAt(at, under(n.field(), e.name), "is set by shardctl for every request: choose another name")
		case lower == "authorization" && h.TokenFile != "":
			l.addAt(at, under(n.field(), e.name), "stands beside tokenFile, which sets it: use one of them")
		}
		if strings.ContainsAny(e.value.text, "\r\n\x00") && !e.value.bad {
			l.add(e.value, "holds more than one line, a header has one")
		}
	}
}
