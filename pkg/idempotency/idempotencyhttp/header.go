package idempotencyhttp

import (
	"net/http"
	"slices"
)

// own are headers of one message alone.
var own = []string{"Connection", "Date", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"}

// shared are headers that middleware and handlers add values to side by side. Any other has one value, or one list, and
// the handler's counts.
var shared = []string{
	"Access-Control-Expose-Headers", "Link", "Server-Timing", "Set-Cookie", "Vary", "Via", "Warning", "Www-Authenticate",
}

// changes is what a handler made of the header that it found: the values that it added to shared ones, and all values of
// others that differ. A field that it removed has no values.
func changes(outer, sent http.Header) http.Header {
	changed := http.Header{}
	for name, values := range sent {
		switch {
		case slices.Contains(own, name):
		case slices.Contains(shared, name):
			if added := without(values, outer[name]); len(added) > 0 {
				changed[name] = added
			}
		case !slices.Equal(values, outer[name]):
			changed[name] = values
		}
	}
	for name := range outer {
		if _, kept := sent[name]; !kept && !slices.Contains(own, name) {
			changed[name] = []string{}
		}
	}
	return changed
}

// apply makes the changes to a header that outer middleware has made for this request.
func apply(header, changed http.Header) {
	for name, values := range changed {
		switch {
		case slices.Contains(own, name):
		case len(values) == 0:
			delete(header, name)
		case slices.Contains(shared, name):
			header[name] = append(header[name], without(values, header[name])...)
		default:
			header[name] = slices.Clone(values) // the record's own
		}
	}
}

// without is values but for those that are among others.
func without(values, others []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(others, v) })
}
