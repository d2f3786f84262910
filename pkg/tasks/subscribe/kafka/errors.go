package kafka

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// worded names the broker and the topic, and says what to do.
func (set *settings) worded(err error) error {
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

// mayPass says whether an error is that a broker is away, or not ready yet.
func mayPass(err error) bool {
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
