//go:build linux

package brokers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
)

// receiver is the service that subscriptions deliver to: CloudEvents over HTTP, one message a request. It records what
// it accepts.
type receiver struct {
	*httptest.Server
	door *door // nil: everything comes in

	mu       sync.Mutex
	accepted []judge.Delivery
	latest   map[int]int // highest sequence number accepted, by lane
	broken   []string    // what was no message of the sender
	poison   map[[2]int]bool
	refused  map[[2]int]int // how often a message was answered 500
	ids      map[[2]int]string
}

func newReceiver() *receiver {
	r := &receiver{
		latest: map[int]int{}, poison: map[[2]int]bool{}, refused: map[[2]int]int{}, ids: map[[2]int]string{},
	}
	r.Server = httptest.NewServer(r)
	DeferCleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // its sender died in the middle of it
	}
	if r.door != nil && !r.door.admits(request.Header) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	w.WriteHeader(r.take(request.Header, body, at))
}

func (r *receiver) take(header http.Header, body []byte, at time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	lane, seq, err := judge.Parse(body)
	token, noToken := strconv.ParseInt(header.Get("Shardctl-Fencing-Token"), 10, 64)
	if err != nil || noToken != nil || header.Get("Ce-Id") == "" {
		r.broken = append(r.broken, header.Get("Shardctl-Key")+": body, token or Ce-Id: "+strconv.Quote(string(body)))
		return http.StatusBadRequest
	}
	message := [2]int{lane, seq}
	r.ids[message] = header.Get("Ce-Id")
	if r.poison[message] && header.Get("Shardctl-Task") != lettersTask {
		r.refused[message]++
		return http.StatusInternalServerError
	}
	r.accepted = append(r.accepted, judge.Delivery{
		Task: header.Get("Shardctl-Key"), Instance: header.Get("Shardctl-Instance"), Token: token, Lane: lane, Seq: seq,
		At: at,
	})
	r.latest[lane] = max(r.latest[lane], seq)
	return http.StatusNoContent
}

// deliveries are all that were accepted so far.
func (r *receiver) deliveries() []judge.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.accepted)
}

// of are the sequence numbers that a task delivered, in order.
func (r *receiver) of(task string) []int {
	var seqs []int
	for _, d := range r.deliveries() {
		if d.Task == task {
			seqs = append(seqs, d.Seq)
		}
	}
	return seqs
}

// reached counts the lanes of which a message at least as late as the mark was accepted.
func (r *receiver) reached(marks map[int]int) (lanes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for lane, seq := range marks {
		if r.latest[lane] >= seq {
			lanes++
		}
	}
	return lanes
}

// poisoned has one message answered 500 for ever.
func (r *receiver) poisoned(lane, seq int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.poison[[2]int{lane, seq}] = true
}

// repaired has a message accepted from now on.
func (r *receiver) repaired(lane, seq int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.poison, [2]int{lane, seq})
}

// refusals are how often a message was answered 500, and its position as the broker has it.
func (r *receiver) refusals(lane, seq int) (n int, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused[[2]int{lane, seq}], r.ids[[2]int{lane, seq}]
}

// malformed is what arrived and was no message of the sender.
func (r *receiver) malformed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.broken)
}
