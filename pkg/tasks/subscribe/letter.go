package subscribe

import (
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Why is why a message became a dead letter.
type Why struct {
	tasks.Identity        // of the task
	Source         string // kind and topic it came from, as kafka:orders
	ID             string // of the message
	Attempts       int
	Err            error // of the last attempt
}

// Headers are what a dead letter carries besides the headers of its message.
func (w Why) Headers() map[string]string {
	return map[string]string{
		"Shardctl-Dead-Task":     w.Group + "/" + w.Name,
		"Shardctl-Dead-Source":   w.Source,
		"Shardctl-Dead-Id":       w.ID,
		"Shardctl-Dead-Attempts": strconv.Itoa(w.Attempts),
		"Shardctl-Dead-Error":    clipped(w.Err.Error()),
	}
}

// maxError is how much of an error a dead letter carries, in bytes: brokers bound what a message may hold.
const maxError = 1 << 10

// clipped is the beginning of a text that is too long, of whole characters.
func clipped(text string) string {
	const more = "…"
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError-len(more)], "") + more
}
