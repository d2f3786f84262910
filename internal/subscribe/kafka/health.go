package kafka

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/field"
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
	h.say(field.Join(errs...))
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

// explain names the broker and the topic, and says what to do.
func (set *settings) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w%s", set.name(), err, set.advice(err))
}

// advice is what to do about an error of this topic or group; empty where that is said already, or is to wait.
func (set *settings) advice(err error) string {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return ": let the user of kafka.sasl read the topic"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Sprintf(": let the user of kafka.sasl read the group %s, or set kafka.offsets to store", set.group)
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration),
		errors.Is(err, kerr.RebalanceInProgress):
		return fmt.Sprintf(": the group %s has members, a subscription has a name of its own: set kafka.group",
			set.group)
	}
	return advice(err)
}

// advice is what to do about an error of a connection.
func advice(err error) string {
	var firstRead *kgo.ErrFirstReadEOF
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return ": check the user and password of kafka.sasl"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return ": set kafka.sasl.mechanism to one that the broker has"
	case errors.Is(err, kerr.IllegalSaslState):
		return ": the broker wants no kafka.sasl on this port"
	case errors.As(err, &firstRead), errors.Is(err, io.EOF):
		return ": the broker closed the connection at once, check kafka.tls, kafka.sasl and the port"
	case errors.As(err, &authority):
		return ": set kafka.tls.caFile to the authority of the broker's certificate"
	case errors.As(err, &hostname):
		return ": write in kafka.brokers a name that the broker's certificate has"
	}
	return ""
}

// isTransient says whether an error is that a broker is away, or not ready yet.
func isTransient(err error) bool {
	var network *net.OpError
	return kgo.IsRetryableBrokerErr(err) || kerr.IsRetriable(err) || errors.As(err, &network)
}

// Why the context of an Open ends.
var (
	errNoAnswer = fmt.Errorf("no answer within %s", openWithin)
	errRefused  = errors.New("no connection")
)

// because puts the reason in the place of an error that only says that a context has ended.
func because(ctx context.Context, h *health, err error) error {
	cause, why := context.Cause(ctx), h.why()
	switch {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, errRefused):
		return why
	case !errors.Is(cause, errNoAnswer):
		return err
	case why != nil:
		return fmt.Errorf("%w: %w", errNoAnswer, why)
	}
	return fmt.Errorf("%w: the broker hangs, or is not one of Kafka", errNoAnswer)
}
