package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// codeOf is the gRPC code of an error of etcd's client, which knows three forms of them.
func codeOf(err error) codes.Code {
	var known rpctypes.EtcdError
	switch {
	case errors.As(err, &known):
		return known.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return status.Code(err)
}

// translator makes errors of etcd's client those of package elect.
type translator struct {
	root    string   // PREFIX/CLUSTER/
	user    string   // of the URI; empty: of a client's certificate, or none
	secrets []string // of the URI, kept out of errors
}

// translate makes an error of the client one of package elect's, once, where it comes in. what says what was tried.
// What is not about the set-up is unavailable: a repeat may succeed.
func (t *translator) translate(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{store.ErrInvalid, store.ErrSchema, store.ErrUnavailable} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	err = rpctypes.Error(err) // calls of maintenance return it as gRPC has it
	if advice := t.refusal(err); advice != "" {
		return fmt.Errorf("%s: %w: %s", what, store.ErrInvalid, advice)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, t.hide(describeError(err)))
}

// answered is the error of a watch's response. Where etcd refuses the watch, its client has the reason only as the text
// of gRPC's error.
func answered(resp clientv3.WatchResponse) error {
	err := resp.Err()
	if err == nil {
		return nil
	}
	if _, reason, ok := strings.Cut(err.Error(), "desc = "); ok {
		return rpctypes.Error(errors.New(reason))
	}
	return err
}

// refusal says what is to be done where it is no use to try again, else nothing.
func (t *translator) refusal(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return "the log-in failed: wrong user or password"
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return "etcd asks for a log-in: name a user and a password in the URI, or a client certificate"
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		who := "the certificate's user"
		if t.user != "" {
			who = fmt.Sprintf("user %q", t.user)
		}
		return fmt.Sprintf("%s lacks the permission readwrite on the prefix %s: grant it with "+
			"etcdctl role grant-permission ROLE --prefix=true readwrite %s", who, t.root, t.root)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return "etcd takes too few operations in a transaction: start it with --max-txn-ops of 128 or more"
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return "etcd takes too small requests: start it with --max-request-bytes of 1572864 or more"
	}
	return handshake(err)
}

// handshake says what is wrong with TLS, which gRPC reports as text alone.
func handshake(err error) string {
	text := err.Error()
	_, reason, failed := strings.Cut(text, "authentication handshake failed: ")
	_, alert, refused := strings.Cut(text, "remote error: tls: ")
	switch {
	case failed && strings.Contains(reason, "x509: "):
		return "TLS: the server's certificate is refused: " + trim(reason) + ": check tlsCAFile and the host's name"
	case refused:
		return "TLS: the server refuses this client: " + trim(alert) + ": check tlsCertFile and tlsKeyFile"
	}
	return ""
}

// trim cuts off the quotation mark with which gRPC ends what it quotes.
func trim(text string) string { return strings.TrimRight(text, `"`) }

// describeError adds what to do to what etcd says of itself.
func describeError(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: its database has reached --quota-backend-bytes and takes no writes: compact, "+
			"defragment, then etcdctl alarm disarm (docs/stores/etcd.md)", err)
	case errors.Is(err, rpctypes.ErrCorrupt):
		return fmt.Errorf("%w: a member's data differ from the others': replace that member", err)
	case strings.Contains(err.Error(), "authentication handshake failed: EOF"):
		return fmt.Errorf("%w: the server hung up when TLS began: does it speak TLS?", err)
	case strings.Contains(err.Error(), "error reading server preface"):
		return fmt.Errorf("%w: the server hung up: does it ask for TLS?", err)
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision):
		return fmt.Errorf("%w: the log-in is renewed with the next call", err)
	}
	return err
}

// hide keeps secrets of the URI out of an error's text; the client has no reason to put them there.
func (t *translator) hide(err error) error {
	text := err.Error()
	if clean := storeuri.Scrub(text, t.secrets); clean != text {
		return errors.New(clean)
	}
	return err
}
