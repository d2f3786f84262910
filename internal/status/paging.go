package status

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"net/url"
	"time"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// paging is which part of a list a request asks for.
type paging struct {
	limit int
	page  pageToken // zero: from the beginning
	scope string    // the conditions as text, so that a token is used with the same ones
}

// scope is the part of a request that a continued one must repeat.
func scope(path string, values url.Values) string {
	same := url.Values{}
	for name, v := range values {
		if name != "limit" && name != "continue" && name != "watch" {
			same[name] = v
		}
	}
	return path + "?" + same.Encode()
}

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
func (p *paging) next(key string, now time.Time) string {
	at := p.page.At
	if at == 0 {
		at = now.Unix()
	}
	return pageToken{Key: key, At: at, Scope: hash(p.scope)}.String()
}

func (p *paging) checkToken(now time.Time) *web.Error {
	switch {
	case p.page.Key == "":
		return nil
	case p.page.Scope != hash(p.scope):
		return web.Invalid(api.FieldError{
			Field:   "continue",
			Message: "the token belongs to a list with other conditions; repeat them, or begin without it",
		})
	case now.Sub(time.Unix(p.page.At, 0)) > tokenLife:
		return web.NewError(http.StatusGone, api.ReasonExpired,
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
