package status

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

// tokenLife is how long a list may be continued. What was seen on the first page is history by then, and a reader
// would join two different moments without knowing.
const tokenLife = 15 * time.Minute

// pageToken says where the next page begins. It holds all that any replica needs, so a list may be continued on
// another one.
type pageToken struct {
	Key   string `json:"k"` // the last one of the page before
	At    int64  `json:"t"` // Unix seconds of the first page
	Scope uint32 `json:"s"` // hash of the conditions
}

var errToken = errors.New("not a token of this list; begin without it")

func parseToken(text string) (pageToken, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return pageToken{}, errToken
	}
	var t pageToken
	if err := json.Unmarshal(raw, &t); err != nil || t.Key == "" {
		return pageToken{}, errToken
	}
	return t, nil
}

func (t pageToken) String() string {
	raw, err := json.Marshal(t)
	if err != nil { // a struct of texts and numbers always marshals
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// next is the token of the page after the one that ends with key.
func (q *query) next(key string, now time.Time) string {
	at := q.page.At
	if at == 0 {
		at = now.Unix()
	}
	return pageToken{Key: key, At: at, Scope: hash(q.scope)}.String()
}

func (q *query) checkPage(now time.Time) *Error {
	switch {
	case q.page.Key == "":
		return nil
	case q.page.Scope != hash(q.scope):
		return httperr.Invalid(api.FieldError{
			Field:   "continue",
			Message: "the token belongs to a list with other conditions; repeat them, or begin without it",
		})
	case now.Sub(time.Unix(q.page.At, 0)) > tokenLife:
		return httperr.New(http.StatusGone, api.ReasonExpired,
			"continue: the list was begun more than %s ago; begin again without it", tokenLife)
	default:
		return nil
	}
}

func hash(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}
