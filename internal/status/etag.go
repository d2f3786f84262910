package status

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// writeTagged answers with a streamed object and its ETag, or says that it is the one that the reader has. It is made
// twice rather than kept in memory.
func writeTagged(w http.ResponseWriter, r *http.Request, l lines) {
	sum := sha256.New()
	b := newBody(sum, "")
	l.writeTo(b)
	if b.flush() == nil {
		tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:15]) + `"` // weak: gzip has the same
		w.Header().Set("ETag", tag)
		if hasTag(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	writeLines(w, l)
}

// hasTag says whether an If-None-Match names the tag.
func hasTag(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" ||
			strings.TrimPrefix(part, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
