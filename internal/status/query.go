package status

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// query is what a request asks of a list, and how it may be answered.
type query struct {
	filter
	paging

	watch  bool
	hidden bool // what tasks wrote is left out, and cannot be searched
	public bool // a stranger asks: reads of the store are paced
}

// pageParams are the parameters of everything that comes in pages.
var pageParams = []string{"limit", "continue"}

// listParams are those of every list.
var listParams = append(slices.Clone(pageParams), "watch")

// parseQuery reads the parameters, of which only the allowed ones and those of every list may stand. All that is
// wrong is reported together.
func parseQuery(values url.Values, path string, allowed []string, states []string, now time.Time) (query, *web.Error) {
	q := query{paging: paging{limit: api.DefaultLimit, scope: scope(path, values)}}
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
	return q, q.checkToken(now)
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

// set takes one value of a parameter. An empty one says nothing.
func (q *query) set(name, value string, states []string, now time.Time) (err error) {
	if value == "" {
		return nil
	}
	if err := checkLength(name, value); err != nil {
		return err
	}
	switch name {
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
	default:
		err = q.filter.set(name, value, states, now)
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

// all says whether the query leaves nothing out.
func (q *query) all() bool { return strings.HasSuffix(q.scope, "?") }
