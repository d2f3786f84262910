package subscribe

import (
	"sync"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// health is what is wrong with a subscription. It passes on the first of what is wrong, when that has changed. Its
// methods may be called concurrently.
type health struct {
	status tasks.Status

	mu    sync.Mutex
	wrong [3]error // the connection, what the source says, a message
	shown string
}

func newHealth(status tasks.Status) *health { return &health{status: status} }

// connection says why the subscription is not open; nil: it is. It says whether that is news.
func (h *health) connection(err error) (news bool) { return h.set(0, err) }

// source notes what the source itself says.
func (h *health) source(err error) { h.set(1, err) }

// message says which message is not worked on, and why.
func (h *health) message(err error) { h.set(2, err) }

func (h *health) set(i int, err error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news = text(h.wrong[i]) != text(err)
	h.wrong[i] = err
	var first error
	for _, err := range h.wrong {
		if err != nil {
			first = err
			break
		}
	}
	if now := text(first); now != h.shown {
		h.shown = now
		h.status.Trouble(first)
	}
	return news
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
