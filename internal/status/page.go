package status

import (
	"crypto/sha256"
	_ "embed" // the page and the description of the API
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed openapi.json
var openAPI []byte

// pagePolicy lets the page run exactly the one style and the one script that stand in it. It may reach nothing but the
// server it came from.
var pagePolicy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; style-src " + hashOf(pageHTML, "style") + "; script-src " + hashOf(pageHTML, "script")

// hashOf is the source expression for what stands between the first <tag> and its end.
func hashOf(html, tag string) string {
	_, rest, _ := strings.Cut(html, "<"+tag+">")
	text, _, _ := strings.Cut(rest, "</"+tag+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func page(w http.ResponseWriter, _ *http.Request) *Error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write([]byte(pageHTML)) // the reader is gone
	return nil
}

func openapi(w http.ResponseWriter, _ *http.Request) *Error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI) // the reader is gone
	return nil
}
