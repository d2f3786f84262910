package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits on what is kept of a request.
const (
	MaxID          = 512      // bytes of Request.ID
	MaxFingerprint = 128      // bytes of Request.Fingerprint
	MaxReply       = 32 << 10 // bytes of a Reply: its body, and its header as JSON
	maxFailure     = 1 << 10  // bytes of the text of a failure
)

// Request names one request.
type Request struct {
	// ID is unique for each request that is to have an effect of its own, and the same in all its repetitions. A random
	// UUID of the sender is best. From 1 to [MaxID] bytes of UTF-8 without NUL bytes.
	ID string
	// Fingerprint is of what is asked for, so that an ID that is used for something else is noticed. [Fingerprint]
	// makes one. At most [MaxFingerprint] bytes of UTF-8 without NUL bytes; empty in all requests: nothing is compared.
	Fingerprint string
}

// Fingerprint is the SHA-256 of parts in hexadecimal digits. The length of each part counts: "ab", "c" is not "a",
// "bc".
func Fingerprint(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = h.Write(size[:])
		_, _ = h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Validate names the first field that is not as described; the error wraps [ErrInvalid].
func (r Request) Validate() error {
	if r.ID == "" {
		return fmt.Errorf("%w: id is empty, want 1 to %d bytes", ErrInvalid, MaxID)
	}
	for _, field := range []struct {
		name, text string
		most       int
	}{{"id", r.ID, MaxID}, {"fingerprint", r.Fingerprint, MaxFingerprint}} {
		if len(field.text) > field.most {
			return fmt.Errorf("%w: %s %.40q has %d bytes, at most %d are allowed", ErrInvalid, field.name, field.text,
				len(field.text), field.most)
		}
		if !utf8.ValidString(field.text) || strings.IndexByte(field.text, 0) >= 0 {
			return fmt.Errorf("%w: %s %.40q is not UTF-8 without NUL bytes", ErrInvalid, field.name, field.text)
		}
	}
	return nil
}

// Reply is what the work answered, and what repetitions of the request get. Status and Header are for HTTP; others
// leave them empty.
type Reply struct {
	Status int
	Header map[string][]string
	Body   []byte
	// Replayed says that it was kept before, and that nothing was done by this call. It is not kept.
	Replayed bool
}

// replyJSON is a reply as JSON, which holds UTF-8 alone. Other fields of the header are in Raw: name, values.
type replyJSON struct {
	Status int                 `json:"status,omitempty"`
	Header map[string][]string `json:"header,omitempty"`
	Raw    [][][]byte          `json:"rawHeader,omitempty"`
	Body   []byte              `json:"body,omitempty"`
}

// MarshalJSON keeps every byte, whatever the header's fields are.
func (r Reply) MarshalJSON() ([]byte, error) {
	j := replyJSON{Status: r.Status, Header: make(map[string][]string, len(r.Header)), Body: r.Body}
	for name, values := range r.Header {
		if utf8.ValidString(name) && !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			j.Header[name] = values
			continue
		}
		field := [][]byte{[]byte(name)}
		for _, value := range values {
			field = append(field, []byte(value))
		}
		j.Raw = append(j.Raw, field)
	}
	return json.Marshal(j)
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (r *Reply) UnmarshalJSON(text []byte) error {
	var j replyJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*r = Reply{Status: j.Status, Header: j.Header, Body: j.Body}
	for _, field := range j.Raw {
		if len(field) == 0 {
			return errors.New("rawHeader: a field is empty, want a name and its values")
		}
		if r.Header == nil {
			r.Header = make(map[string][]string)
		}
		texts := make([]string, 0, len(field)-1)
		for _, value := range field[1:] {
			texts = append(texts, string(value))
		}
		r.Header[string(field[0])] = texts
	}
	return nil
}

// Size is how many bytes count towards [MaxReply].
func (r Reply) Size() int {
	if len(r.Header) == 0 {
		return len(r.Body)
	}
	header, err := json.Marshal(r.Header)
	if err != nil {
		return math.MaxInt // there is no such map
	}
	return len(r.Body) + len(header)
}
