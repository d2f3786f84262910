package route

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// clean leaves out of a request what its sender may not tell an owner: headers of shardctl, and those that a server
// which follows CGI takes for others, since it reads '_' as '-'; and any header that holds a token of shardctl, wherever
// a sender put it. known says what is one; nil: nothing is.
func clean(h http.Header, known func(token string) bool) {
	for name, values := range h {
		if strings.HasPrefix(name, "Shardctl-") || strings.Contains(name, "_") || slices.ContainsFunc(values,
			func(value string) bool { return known != nil && holdsToken(value, known) }) {
			delete(h, name)
		}
	}
	for _, name := range []string{"Upgrade", "Connection", "Te", "Trailer"} {
		h.Del(name)
	}
}

// holdsToken says whether a token stands in the value of a header: as a word, as one of a list, after a name as in
// cookies, or as the user or the password of Basic.
func holdsToken(value string, known func(token string) bool) bool {
	for word := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune(" \t,;\"'", c) }) {
		_, after, _ := strings.Cut(word, "=")
		user, password, _ := strings.Cut(decoded(word), ":")
		if slices.ContainsFunc([]string{word, after, user, password}, func(text string) bool {
			return text != "" && known(text)
		}) {
			return true
		}
	}
	return slices.ContainsFunc(strings.Fields(value), known) // a token may hold what separates words above
}

// decoded is a text of base64; empty: it is none.
func decoded(word string) string {
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "="))
	if err != nil {
		return ""
	}
	return string(text)
}

// forOrigin are headers of an answer that browsers apply to all of its origin, which is the page's as well.
var forOrigin = []string{
	"Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Public-Key-Pins",
	"Alt-Svc", "Nel", "Report-To", "Reporting-Endpoints", "Origin-Agent-Cluster", "Accept-Ch", "Refresh",
}

// sandbox keeps what an owner answers apart from the page, which is of the same origin.
func sandbox(resp *http.Response) error {
	for _, name := range forOrigin {
		resp.Header.Del(name)
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(resp.Header, name)
		}
	}
	resp.Header.Set("Content-Security-Policy", "sandbox")
	resp.Header.Set("X-Content-Type-Options", "nosniff")
	return nil
}
