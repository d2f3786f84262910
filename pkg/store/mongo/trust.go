package mongo

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// distrust is the error of a server whose certificate is not trusted, when that holds of every server that was tried.
// A set of which one server alone has a wrong certificate can be reached without it.
func distrust(err error) (*tls.CertificateVerificationError, bool) {
	if direct, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return direct, true
	}
	var found *tls.CertificateVerificationError
	for _, last := range lastErrors(err) {
		one, ok := errors.AsType[*tls.CertificateVerificationError](last)
		if !ok {
			return nil, false
		}
		found = one
	}
	return found, found != nil
}

// lastErrors are those of the servers of a selection that found none.
func lastErrors(err error) []error {
	selection, ok := errors.AsType[topology.ServerSelectionError](err)
	if !ok {
		return nil
	}
	var all []error
	for _, server := range selection.Desc.Servers {
		if server.LastError != nil {
			all = append(all, server.LastError)
		}
	}
	return all
}

// nameTrust says what to do about TLS. mongod closes the connection of a client whose certificate it does not take,
// and of one that speaks without TLS, and says nothing.
func nameTrust(err error) error {
	if verification, ok := distrust(err); ok {
		return fmt.Errorf("the server's certificate is not trusted (tlsCAFile in the URI names whom to trust): %w",
			verification)
	}
	last := lastErrors(err)
	for _, one := range last {
		if !errors.Is(one, io.EOF) && !strings.Contains(one.Error(), io.EOF.Error()) {
			return err
		}
	}
	if len(last) == 0 {
		return err
	}
	return fmt.Errorf("the server closes each connection before it answers: it wants TLS, or a certificate of the "+
		"client that it knows (tls and tlsCertificateKeyFile in the URI): %w", last[0])
}
