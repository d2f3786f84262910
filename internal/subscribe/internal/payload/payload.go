// Package payload says how what is in a message is written as text, so that nothing of it is lost on the way.
package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// Form is how a body can be written in JSON.
type Form int

// The forms.
const (
	None   Form = iota // there is no body
	JSON               // as the value that it is
	Text               // as a string
	Binary             // in base64
)

// Media types of bodies whose type is not known.
const (
	typeJSON   = "application/json"
	typeText   = "text/plain; charset=utf-8"
	typeBinary = "application/octet-stream"
)

// Of is the media type and the form of the message's body. Where no type is known, or what it has is none, the body
// says it: a JSON object or array, other UTF-8, or bytes.
func Of(m subscribe.Message) (mediaType string, form Form) {
	media, params := parse(m.Type)
	switch {
	case media == "":
		return guess(m.Body)
	case m.Body == nil:
		return m.Type, None
	case !isUTF8(m.Body, params["charset"]):
		return m.Type, Binary
	case !isJSON(media):
		return m.Type, Text
	case json.Valid(m.Body):
		return m.Type, JSON
	default:
		return m.Type, Binary
	}
}

// MediaType is the media type that Of gives. It costs less, as it does not look into bodies whose type is known.
func MediaType(m subscribe.Message) string {
	if media, _ := parse(m.Type); media != "" {
		return m.Type
	}
	mediaType, _ := guess(m.Body)
	return mediaType
}

// parse is the media type and its parameters; empty where the text is no media type.
func parse(text string) (media string, params map[string]string) {
	if text == "" {
		return "", nil
	}
	media, params, err := mime.ParseMediaType(text)
	if err != nil || !strings.Contains(media, "/") || !IsText([]byte(text)) {
		return "", nil
	}
	return media, params
}

func guess(body []byte) (mediaType string, form Form) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case body == nil:
		return "", None
	case !utf8.Valid(body):
		return typeBinary, Binary
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(body):
		return typeJSON, JSON
	default:
		return typeText, Text
	}
}

func isJSON(media string) bool {
	return media == typeJSON || media == "text/json" || strings.HasSuffix(media, "+json")
}

func isUTF8(body []byte, charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii":
		return utf8.Valid(body)
	default:
		return false
	}
}

// IsText says whether b can stand for itself as text: it is UTF-8 and has no control characters.
func IsText(b []byte) bool {
	return printable(b) || utf8.Valid(b) && bytes.IndexFunc(b, unicode.IsControl) < 0
}

// printable says whether all of text is printable ASCII: as most is, and that is quick to see.
func printable[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// Clean is s with control characters, and bytes that are not UTF-8, written as \xNN. Names of messages are written so:
// most stay as they are, and different ones stay different.
func Clean(s string) string {
	if printable(s) || IsText([]byte(s)) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) {
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Headers are those of the message, apart from each other by whether their value is UTF-8. JSON writes the values of
// binary in base64. A type that is no media type is among them as content-type.
func Headers(m subscribe.Message) (text map[string]string, binary map[string][]byte) {
	add := func(name, value string) {
		if name = Clean(name); !utf8.ValidString(value) {
			if binary == nil {
				binary = map[string][]byte{}
			}
			binary[name] = []byte(value)
			return
		}
		if text == nil {
			text = map[string]string{}
		}
		text[name] = value
	}
	if media, _ := parse(m.Type); media == "" && m.Type != "" {
		add("content-type", m.Type)
	}
	for name, value := range m.Headers {
		add(name, value)
	}
	return text, binary
}
