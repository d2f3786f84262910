package mongostore

import (
	"net/url"
	"strings"
)

// redacted stands where a secret was.
const redacted = "xxxxx"

// secretParams are the options of a URI that carry secrets, in lower case.
var secretParams = map[string]bool{
	"authmechanismproperties":         true, // AWS_SESSION_TOKEN
	"tlscertificatekeyfilepassword":   true,
	"sslclientcertificatekeypassword": true,
	"proxypassword":                   true,
	"password":                        true,
}

// Redact returns a MongoDB URI that can be shown: passwords and other secrets are replaced by xxxxx. It takes URIs that
// are wrong as well, and then rather hides too much.
func Redact(uri string) string {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		scheme, rest = "", uri
	} else {
		scheme += "://"
	}
	user, _, rest := splitUser(rest)
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		rest += "?" + redactQuery(query)
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

func redactQuery(query string) string {
	params := strings.Split(query, "&")
	for i, p := range params {
		name, _, _ := strings.Cut(p, "=")
		if secretParams[strings.ToLower(name)] {
			params[i] = name + "=" + redacted
		}
	}
	return strings.Join(params, "&")
}

// secrets lists what of a URI must not appear in any text, as written and as decoded.
func secrets(uri string) []string {
	_, rest, found := strings.Cut(uri, "://")
	if !found {
		rest = uri
	}
	_, password, after := splitUser(rest)
	all := []string{password}
	_, query, _ := strings.Cut(after, "?")
	for p := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(p, "="); secretParams[strings.ToLower(name)] {
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

// scrub replaces secrets in a text.
func scrub(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	return text
}
