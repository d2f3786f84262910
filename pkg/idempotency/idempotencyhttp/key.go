package idempotencyhttp

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// Header is the name of the header field of the key.
const Header = "Idempotency-Key"

// MaxKey is how many bytes a key may have. The keys of shardctl's own requests may have more.
const MaxKey = 255

// errMissing says that there is no key.
var errMissing = errors.New("is missing")

// keyOf is the key that a request carries.
func keyOf(r *http.Request, unquoted bool) (string, error) {
	values := r.Header.Values(Header)
	switch len(values) {
	case 0:
		return "", errMissing
	case 1:
	default:
		return "", fmt.Errorf("is sent %d times, want once", len(values))
	}
	value := strings.Trim(values[0], " ")
	if isOwn(r, value) {
		return value, nil
	}
	key, err := parseString(value)
	if err != nil && unquoted && value != "" && !strings.ContainsFunc(value, notInToken) {
		key, err = value, nil
	}
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", fmt.Errorf("is empty, want 1 to %d characters", MaxKey)
	case len(key) > MaxKey:
		return "", fmt.Errorf("has %d characters, at most %d are allowed", len(key), MaxKey)
	}
	return key, nil
}

// isOwn says whether a value is a key as tasks and subscriptions of shardctl send it. It has no quotes, and names a
// tick, a run or a message by its place, as orders/3/42. An ID that a program made itself is known by the header
// beside it.
func isOwn(r *http.Request, value string) bool {
	if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
		return false
	}
	return strings.ContainsAny(value, "/#") || r.Header.Get("Shardctl-Event") != ""
}

// notInToken says whether a character cannot be in a key without quotes: what is neither a letter, a digit nor one of
// a few signs.
func notInToken(c rune) bool {
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	return !letter && (c < '0' || c > '9') && !strings.ContainsRune("-_.:~", c)
}

// parseString reads a String of RFC 8941, section 4.2.5. The draft allows no parameters after it.
func parseString(value string) (string, error) {
	if !strings.HasPrefix(value, `"`) {
		return "", errors.New(`is no string in double quotes, want for example "8e03978e-40d5-43e8-bc93-6894a57f9324"`)
	}
	var b strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"' && i == len(value)-1:
			return b.String(), nil
		case c == '"':
			return "", fmt.Errorf("goes on after its closing quote: %.40q", value[i+1:])
		case c == '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", errors.New(`has a backslash that is not before \ or "`)
			}
			b.WriteByte(value[i])
		case c < 0x20 || c > 0x7e:
			return "", fmt.Errorf("has the byte %#x, want visible ASCII and spaces", c)
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("has no closing quote")
}

// fingerprint is of the method, the URL, and the body: the parts of one of several parts, since clients make a new
// boundary each time they send it. Where somebody before the middleware has parsed a form, the body is empty, and the
// form stands for it.
func fingerprint(r *http.Request, body []byte) (string, error) {
	parts := [][]byte{[]byte(r.Method), []byte(r.URL.RequestURI())}
	if within, ok := partsOf(r.Header.Get("Content-Type"), body); ok {
		parts = append(parts, []byte("multipart"), within)
	} else {
		parts = append(parts, body)
	}
	if len(r.PostForm) > 0 {
		parts = append(parts, []byte(r.PostForm.Encode()))
	}
	if r.MultipartForm != nil {
		for _, field := range slices.Sorted(maps.Keys(r.MultipartForm.File)) {
			for _, file := range r.MultipartForm.File[field] {
				sum, err := sumOf(file)
				if err != nil {
					return "", err
				}
				parts = append(parts, []byte(field), []byte(file.Filename), sum)
			}
		}
	}
	return idempotency.Fingerprint(parts...), nil
}

// partsOf is what the parts of a body hold, in their order, without the boundary between them: the header and the bytes
// of each. ok is false for a body that has none, or is malformed: it counts as it is.
func partsOf(contentType string, body []byte) (sum []byte, ok bool) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return nil, false
	}
	all := sha256.New()
	reader := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := reader.NextRawPart()
		if err == io.EOF { // one that wraps it says that the body is cut
			return all.Sum(nil), true
		}
		if err != nil {
			return nil, false
		}
		content := sha256.New()
		if _, err := io.Copy(content, part); err != nil {
			return nil, false
		}
		for _, name := range slices.Sorted(maps.Keys(part.Header)) {
			for _, value := range part.Header[name] {
				_, _ = fmt.Fprintf(all, "%q: %q\n", name, value)
			}
		}
		_, _ = fmt.Fprintf(all, "%x\n", content.Sum(nil))
	}
}

func sumOf(header *multipart.FileHeader) ([]byte, error) {
	file, err := header.Open()
	if err != nil {
		return nil, fmt.Errorf("file %.80q of the form: %w", header.Filename, err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, fmt.Errorf("file %.80q of the form: %w", header.Filename, err)
	}
	return sum.Sum(nil), nil
}
