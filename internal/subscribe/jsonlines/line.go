package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
)

// message is a line that the process reads.
type message struct {
	ID            string            `json:"id"`
	Origin        string            `json:"origin,omitempty"`
	Partition     string            `json:"partition,omitempty"`
	Key           *string           `json:"key,omitempty"`
	KeyBase64     []byte            `json:"key_base64,omitempty"` // in place of key, where that is no text
	Type          string            `json:"type,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	HeadersBase64 map[string][]byte `json:"headers_base64,omitempty"` // those whose value is not UTF-8
	Time          *time.Time        `json:"time,omitempty"`
	Attempt       int               `json:"attempt"`
	Redelivered   bool              `json:"redelivered,omitempty"`
	Token         int64             `json:"token"`
	TraceParent   string            `json:"traceparent,omitempty"`
	TraceState    string            `json:"tracestate,omitempty"`
	Data          any               `json:"data,omitempty"` // the value where the body is JSON, else a string
	DataBase64    *[]byte           `json:"data_base64,omitempty"`
}

// newLine is a delivery as a line, its end included.
func newLine(d subscribe.Delivery) ([]byte, error) {
	mediaType, form := payload.Of(d.Message)
	m := message{
		ID: payload.Clean(d.ID), Origin: payload.Clean(d.Origin), Partition: payload.Clean(d.Partition),
		Type:    mediaType,
		Attempt: d.Attempt, Redelivered: d.Again, Token: d.Token, TraceParent: d.Trace.Parent,
		TraceState: d.Trace.State,
	}
	m.Headers, m.HeadersBase64 = payload.Headers(d.Message)
	if d.Key != nil {
		if key := string(d.Key); payload.IsText(d.Key) {
			m.Key = &key
		} else {
			m.KeyBase64 = d.Key
		}
	}
	if year := d.Time.UTC().Year(); !d.Time.IsZero() && year >= 0 && year <= 9999 { // those of RFC 3339
		at := d.Time.UTC()
		m.Time = &at
	}
	switch form {
	case payload.JSON:
		m.Data = json.RawMessage(d.Body)
	case payload.Text:
		m.Data = string(d.Body)
	case payload.Binary:
		m.DataBase64 = &d.Body
	case payload.None:
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil { // it puts each value on one line
		return nil, fmt.Errorf("exec: make a line of message %s: %w", d.ID, err)
	}
	return line.Bytes(), nil
}

// expected is what a line of the process must be to be an answer, for people.
const expected = `{"id": "ID", "ok": true}, {"id": "ID", "error": "why"}, or the bare id`

// answer is what a line of the process says of a message.
type answer struct {
	id  string
	err error // nil: it was worked on
}

// readAnswer reads a line that is a JSON object; false: it is none with an id.
func readAnswer(line string) (answer, bool) {
	var a struct {
		ID    *string         `json:"id"`
		OK    *bool           `json:"ok"`
		Error json.RawMessage `json:"error"`
		Dead  json.RawMessage `json:"dead"`
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil || a.ID == nil {
		return answer{}, false
	}
	failed := len(a.Error) > 0 && string(a.Error) != "null"
	dead := string(a.Dead) == "true"
	var err error
	switch {
	case failed:
		err = fmt.Errorf("exec: the process answered: %s", said(a.Error))
	case a.OK != nil && *a.OK:
		return answer{*a.ID, nil}, true
	case dead:
		err = errors.New("exec: the process answered dead: true")
	default:
		err = fmt.Errorf("exec: the process answered without ok: true, must be %s", expected)
	}
	if dead {
		err = subscribe.Rejected(err)
	}
	return answer{*a.ID, err}, true
}

// maxSaid is how much of an error of the process is quoted, in bytes.
const maxSaid = 1000

// said is an error that is a text, or any other JSON as it is written.
func said(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	if text = payload.Clean(text); len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…" // less half a character
	}
	return text
}
