package storeuri

import (
	"net/url"
	"slices"
	"strings"
)

// redacted stands where a secret was.
const redacted = "xxxxx"

// Secrets are the parameters of a scheme's URIs that carry secrets, in lower case.
type Secrets []string

// Redact returns a URI that can be shown: its password and other secrets are replaced by xxxxx. It takes URIs that are
// wrong as well, and then rather hides too much.
func (p Secrets) Redact(uri string) string {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		scheme, rest = "", uri
	} else {
		scheme += "://"
	}
	user, _, rest := splitUser(rest)
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		rest += "?" + p.redactQuery(query)
	}
	return scheme + user + rest
}

// splitUser cuts USER:PASSWORD@ off. The last @ ends it: a password with a bare @ or / in it makes the URI wrong, and
// must not be shown for that.
func splitUser(rest string) (user, password, after string) {
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return "", "", rest
	}
	user, password, has := strings.Cut(rest[:at], ":")
	if has {
		user += ":" + redacted
	}
	return user + "@", password, rest[at+1:]
}

func (p Secrets) redactQuery(query string) string {
	params := strings.Split(query, "&")
	for i, param := range params {
		name, _, _ := strings.Cut(param, "=")
		if p.has(name) {
			params[i] = name + "=" + redacted
		}
	}
	return strings.Join(params, "&")
}

func (p Secrets) has(name string) bool { return slices.Contains(p, strings.ToLower(name)) }

// Of lists what of a URI must not appear in any text, as written and as decoded.
func (p Secrets) Of(uri string) []string {
	_, rest, found := strings.Cut(uri, "://")
	if !found {
		rest = uri
	}
	_, password, after := splitUser(rest)
	all := []string{password}
	_, query, _ := strings.Cut(after, "?")
	for param := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(param, "="); p.has(name) {
			all = append(all, value)
		}
	}
	for _, s := range all {
		if plain, err := url.PathUnescape(s); err == nil && plain != s {
			all = append(all, plain)
		}
	}
	return all
}

// Scrub replaces secrets in a text.
func Scrub(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	return text
}
