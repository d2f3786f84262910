package endpoint

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Parse reads the fields url, method, headers, tokenFile and tls.caFile.
func Parse(n *decode.Node, r *decode.Reader) Endpoint {
	r.CheckStart(n, nil)
	return Endpoint{
		URL:       r.Text(n.Get("url"), ""),
		Method:    r.Text(n.Get("method"), DefaultMethod),
		Headers:   r.Texts(n.Get("headers")),
		TokenFile: r.Text(n.Get("tokenFile"), ""),
		CAFile:    r.Text(n.At("tls", "caFile"), ""),
	}
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // of RFC 9110: a method, the name of a header

// Validate checks the URL, the method and the headers. Besides those that all requests have, ours are the names, in
// lower case, of headers that are set for every request. One that ends with a hyphen stands for all that begin so.
func (e Endpoint) Validate(ours ...string) []decode.FieldError {
	var wrong []decode.FieldError
	switch path := []string{"url"}; {
	case e.URL == "":
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is required"})
	case !decode.HasVariables(e.URL) && !IsWebURL(e.URL):
		// Not quoted: it may hold a password.
		wrong = append(wrong, decode.FieldError{
			Path: path, Message: "is not a URL to call, must be http://HOST… or https://HOST…",
		})
	}
	wrong = append(wrong, ValidateCAFile(e.URL, e.CAFile)...)
	if e.Method != "" && !decode.HasVariables(e.Method) && !token.MatchString(e.Method) {
		wrong = append(wrong, decode.FieldError{Path: []string{"method"}, Must: "a method such as GET, POST or PUT"})
	}
	return append(wrong, e.ValidateHeaders(append([]string{"shardctl-", "idempotency-key"}, ours...))...)
}

// ValidateCAFile refuses authorities where nothing is asked over TLS. Redirects are not followed.
func ValidateCAFile(url, caFile string) []decode.FieldError {
	if caFile == "" || !strings.HasPrefix(strings.ToLower(url), "http://") {
		return nil
	}
	return []decode.FieldError{{
		Path: []string{"tls", "caFile"}, Message: "goes with https:// only: over http:// no certificate is looked at",
	}}
}

// IsWebURL says whether text is a URL with a host, and a port that there is.
func IsWebURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0
}

// ValidateHeaders checks the headers. Ours are as those of Validate.
func (e Endpoint) ValidateHeaders(ours []string) []decode.FieldError {
	var wrong []decode.FieldError
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		path, lower := []string{"headers", name}, strings.ToLower(name)
		set := func(own string) bool {
			return lower == own || strings.HasSuffix(own, "-") && strings.HasPrefix(lower, own)
		}
		switch {
		case !token.MatchString(name):
			wrong = append(wrong, decode.WrongName(path, "is not the name of a header"))
		case slices.ContainsFunc(ours, set):
			wrong = append(wrong, decode.WrongName(path, "is set by shardctl for every request: choose another name"))
		case lower == "authorization" && e.TokenFile != "":
			wrong = append(wrong, decode.WrongName(
				path, "is set together with tokenFile, which sets it: use one of them",
			))
		}
		if strings.ContainsAny(e.Headers[name], "\r\n\x00") {
			wrong = append(wrong, decode.FieldError{Path: path, Message: "holds more than one line, a header has one"})
		}
	}
	return wrong
}

// Print shows the fields as they are written, with more before tokenFile.
func (e Endpoint) Print(more ...decode.Field) decode.Fields {
	fields := decode.Pairs(
		"url", decode.WithoutPasswords(e.URL),
		"method", cmp.Or(e.Method, DefaultMethod),
		"headers", decode.Map(decode.WithoutPasswordsIn(e.Headers)),
	)
	fields = append(fields, more...)
	fields = append(fields, decode.Pairs("tokenFile", decode.TextOrNil(e.TokenFile))...)
	if e.CAFile != "" {
		fields = append(fields, decode.Pairs("tls", decode.Pairs("caFile", e.CAFile))...)
	}
	return fields
}
