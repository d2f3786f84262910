package status

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// maxQuery is how long a query may be, in bytes. A watch keeps it several times over.
const maxQuery = 16 << 10

// MaxValues is how many values one parameter of a query may have.
const MaxValues = 100

// What the parameters of a query may hold. A list of a hundred thousand items is compared with each of them.
const (
	maxLength = 1 << 10 // of one value, in bytes: the longest name of an instance; a selector has its own limit
	maxToken  = 8 << 10 // of continue, in bytes
)

// query is what a request asks of a list. Conditions add up; the values of one of them are alternatives.
type query struct {
	groups, instances, states []string
	names                     snapshot.Patterns
	kinds                     []api.LockKind
	task                      string // the key of one
	slotOf                    string // a key of which the slot is meant
	selector                  snapshot.Selector
	q                         string // lower case
	since                     time.Time
	limit                     int
	page                      pageToken // zero: from the beginning
	watch                     bool
	hidden                    bool   // what tasks wrote is left out, and cannot be searched
	public                    bool   // a stranger asks: reads of the store are paced
	scope                     string // the conditions as text, so that a token is used with the same ones
}

// pageParams are the parameters of everything that comes in pages.
var pageParams = []string{"limit", "continue"}

// listParams are those of every list.
var listParams = append(slices.Clone(pageParams), "watch")

// parseQuery reads the parameters, of which only the allowed ones and those of every list may stand. All that is
// wrong is reported together.
func parseQuery(values url.Values, path string, allowed []string, states []string, now time.Time) (query, *web.Error) {
	q := query{limit: api.DefaultLimit, scope: scope(path, values)}
	errs := checkParameters(values, path, slices.Concat(allowed, listParams))
	bad := func(field, format string, args ...any) {
		errs = append(errs, api.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	refused := func(name string) bool {
		return slices.ContainsFunc(errs, func(e api.FieldError) bool { return e.Field == name })
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if refused(name) {
			continue
		}
		for _, value := range values[name] {
			if err := q.set(name, value, states, now); err != nil {
				bad(name, "%v", err)
			}
		}
	}
	if q.watch && q.page.Key != "" {
		bad("continue", "does not go with watch=true, which sends the whole list")
	}
	if len(errs) > 0 {
		return query{}, web.Invalid(errs...)
	}
	return q, q.checkPage(now)
}

// checkParameters says what is wrong with parameters whatever they mean: one that is not allowed, too many of one, and
// values with control characters, which no name has and not every store takes.
func checkParameters(values url.Values, path string, allowed []string) (errs []api.FieldError) {
	bad := func(field, format string, args ...any) {
		errs = append(errs, api.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	takes := "none"
	if len(allowed) > 0 {
		takes = strings.Join(allowed, ", ")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch n := len(values[name]); {
		case !slices.Contains(allowed, name):
			bad(name, "not a parameter of %s; it takes %s", path, takes)
		case n > MaxValues:
			bad(name, "it is given %d times; at most %d are taken", n, MaxValues)
		default:
			odd := func(value string) bool {
				if name == "selector" { // in which tabs are spaces
					value = strings.ReplaceAll(value, "\t", " ")
				}
				return isOdd(value)
			}
			if i := slices.IndexFunc(values[name], odd); i >= 0 {
				bad(name, "%.80q: want UTF-8 without control characters", values[name][i])
			}
		}
	}
	return errs
}

// isOdd says whether a text has control characters, or is no UTF-8.
func isOdd(text string) bool {
	return strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text)
}

// parameters are those of the query. They are not longer than allowed.
func parameters(r *http.Request) (url.Values, *web.Error) {
	if n := len(r.URL.RawQuery); n > maxQuery {
		return nil, web.Invalid(api.FieldError{
			Field: "query", Message: fmt.Sprintf("it has %d bytes; at most %d are taken", n, maxQuery),
		})
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, web.Invalid(
			api.FieldError{Field: "query", Message: strings.TrimPrefix(err.Error(), "invalid ")},
		)
	}
	return values, nil
}

// withoutParameters refuses a request that has any.
func withoutParameters(e web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		values, bad := parameters(r)
		if bad != nil {
			return bad
		}
		if errs := checkParameters(values, r.URL.Path, nil); len(errs) > 0 {
			return web.Invalid(errs...)
		}
		return e(w, r)
	}
}

func (q *query) set(name, value string, states []string, now time.Time) (err error) {
	if value == "" {
		return nil
	}
	if err := checkLength(name, value); err != nil {
		return err
	}
	switch name {
	case "group":
		q.groups = append(q.groups, value)
	case "instance":
		q.instances = append(q.instances, value)
	case "state":
		q.states, err = appendSome(q.states, value, states)
	case "name":
		q.names = append(q.names, value)
		err = q.names[len(q.names)-1:].Validate()
	case "kind":
		q.kinds, err = appendSome(q.kinds, value, api.LockKinds())
	case "task":
		q.task = value
	case "for":
		q.slotOf = value
	case "selector":
		var s snapshot.Selector
		s, err = snapshot.ParseSelector(value)
		q.selector = append(q.selector, s...)
		if err == nil {
			err = q.selector.CheckParts()
		}
	case "q":
		q.q = strings.ToLower(value)
	case "since":
		q.since, err = parseSince(value, now)
	case "limit":
		q.limit, err = strconv.Atoi(value)
		if err != nil || q.limit < 1 || q.limit > api.MaxLimit {
			return fmt.Errorf("%q is not a number from 1 to %d", value, api.MaxLimit)
		}
	case "continue":
		q.page, err = parseToken(value)
	case "watch":
		q.watch, err = strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", value)
		}
	}
	return err
}

func checkLength(name, value string) error {
	most := maxLength
	if limit, ok := map[string]int{"selector": maxQuery, "continue": maxToken}[name]; ok {
		most = limit
	}
	if len(value) > most {
		return fmt.Errorf("it has %d bytes; at most %d are taken", len(value), most)
	}
	return nil
}

// appendSome appends those that a value names, between commas, and that the list does not have.
func appendSome[S ~string](list []S, value string, allowed []S) ([]S, error) {
	for part := range strings.SplitSeq(value, ",") {
		if !slices.Contains(allowed, S(part)) {
			return nil, fmt.Errorf("%q is not one of %s", part, strings.Join(names(allowed), ", "))
		}
		if !slices.Contains(list, S(part)) {
			list = append(list, S(part))
		}
	}
	return list, nil
}

// parseSince takes a moment in RFC 3339, or how long ago, as 10m.
func parseSince(value string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a moment as 2026-01-31T12:00:00Z nor how long ago as 10m", value)
	}
	return at, nil
}

// anyOf says whether a list of alternatives has the value, or is empty.
func anyOf[S comparable](list []S, value S) bool {
	return len(list) == 0 || slices.Contains(list, value)
}

func (q *query) inGroup(name string) bool { return anyOf(q.groups, name) }

func (q *query) onInstance(name string) bool { return anyOf(q.instances, name) }

// onlyInstance says whether the instance was asked for by name.
func (q *query) onlyInstance(name string) bool { return slices.Contains(q.instances, name) }

func (q *query) inState(state string) bool { return anyOf(q.states, state) }

// has says whether any of the texts contains q, in any case of letters.
func (q *query) has(texts ...string) bool {
	return q.q == "" || slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), q.q)
	})
}

// onlyGroup is the group that all events are of that can match; empty where they may be of several, or of none.
func (q *query) onlyGroup() string {
	switch {
	case q.task != "":
		return groupOf(q.task)
	case len(q.groups) == 1:
		return q.groups[0]
	default:
		return q.names.Group()
	}
}

// wantsMutexes says whether locks of programs can be among what is asked for. They are in no group.
func (q *query) wantsMutexes() bool {
	return len(q.groups) == 0 && (len(q.kinds) == 0 || slices.ContainsFunc(q.kinds, api.LockKind.OfProgram))
}

func groupOf(key string) string {
	for i := range key {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return key
}

func names[S ~string](states []S) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
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

// all says whether the query leaves nothing out.
func (q *query) all() bool { return strings.HasSuffix(q.scope, "?") }

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

func (q *query) checkPage(now time.Time) *web.Error {
	switch {
	case q.page.Key == "":
		return nil
	case q.page.Scope != hash(q.scope):
		return web.Invalid(api.FieldError{
			Field:   "continue",
			Message: "the token belongs to a list with other conditions; repeat them, or begin without it",
		})
	case now.Sub(time.Unix(q.page.At, 0)) > tokenLife:
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
