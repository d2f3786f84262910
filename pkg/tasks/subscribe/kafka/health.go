package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
)

// health knows what is wrong while a subscription goes on, and says each change. It hears of connections by the
// client's hooks. It may be used concurrently.
type health struct {
	say func(error)

	troubled atomic.Bool // wrong is not empty: a glance for each answer
	mu       sync.Mutex
	open     bool // before and after, nothing is said
	wrong    []problem
	refused  error // why the last connection could not be made
	refusals int   // since one was made
	enough   int   // refusals after which refuse is called
	refuse   func(error)
}

type problem struct {
	about string
	err   error
	at    time.Time
}

// set says that something is wrong about a thing, or with nil that nothing is any more.
func (h *health) set(about string, err error) {
	if err == nil && !h.troubled.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.wrong)
	h.wrong = slices.DeleteFunc(h.wrong, func(p problem) bool { return p.about == about })
	if err != nil {
		h.wrong = append(h.wrong, problem{about, err, time.Now()})
	}
	h.troubled.Store(len(h.wrong) > 0)
	if err != nil || len(h.wrong) < before {
		h.report()
	}
}

// report says what is wrong. The lock keeps what is said in order.
func (h *health) report() {
	if !h.open {
		return
	}
	errs := make([]error, len(h.wrong))
	for i, p := range h.wrong {
		errs[i] = p.err
	}
	h.say(access.Join(errs))
}

// begin says from now on what is wrong.
func (h *health) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	if len(h.wrong) > 0 {
		h.report()
	}
}

// end says that nothing is wrong any more, and nothing after that.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open && len(h.wrong) > 0 {
		h.wrong = nil
		h.report()
	}
	h.open = false
}

// forget drops what was not said again for so long: a broker that has left the cluster, say.
func (h *health) forget(age time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.wrong)
	h.wrong = slices.DeleteFunc(h.wrong, func(p problem) bool { return time.Since(p.at) > age })
	h.troubled.Store(len(h.wrong) > 0)
	if len(h.wrong) < before {
		h.report()
	}
}

// why is why the last connection could not be made; nil where there is no such thing.
func (h *health) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

func address(meta kgo.BrokerMetadata) string {
	return net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
}

// OnBrokerConnect hears of a connection that was made, or could not be.
func (h *health) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		err = fmt.Errorf("broker %s: cannot connect: %w", address(meta), err)
		h.note(err)
		err = fmt.Errorf("%w: messages wait until it can be reached%s", err, advice(err))
	}
	h.set(address(meta), err)
}

// note remembers why a connection could not be made.
func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = err
	if h.refusals++; h.refusals == h.enough && !h.open {
		h.refuse(errRefused)
	}
}

// OnBrokerRead hears of an answer, or that none came in time.
func (h *health) OnBrokerRead(meta kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	var timeout net.Error
	switch {
	case err == nil:
		h.set(address(meta), nil)
	case errors.As(err, &timeout) && timeout.Timeout():
		h.set(address(meta), fmt.Errorf("broker %s does not answer: messages wait until it does", address(meta)))
	}
}
