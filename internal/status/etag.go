package status

import (
	"net/http"
	"strings"
)

// sendTagged answers with the ETag, or says that the answer is the one that the reader has.
func (m *made) sendTagged(w http.ResponseWriter, r *http.Request, media string) *Error {
	if m.bad == nil {
		w.Header().Set("ETag", m.tag)
		if hasTag(r.Header.Get("If-None-Match"), m.tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return m.send(w, r, media)
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
