// Package web serves HTTP for whoever has a handler: errors as answers, limits of requests and connections, and an end
// that waits for no stream.
package web
