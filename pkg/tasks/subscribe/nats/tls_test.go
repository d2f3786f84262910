package nats_test

import (
	"fmt"
	"testing"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
)

// A server that wants TLS, and a certificate of each client.
func TestTLS(t *testing.T) {
	cert, key := testbroker.Certificate(t)
	b := testbroker.NATS(t,
		fmt.Sprintf("tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true}", cert, key, cert))
	r := rigAt(t, b, natsio.RootCAs(cert), natsio.ClientCert(cert, key))
	r.stream(jetstream.StreamConfig{})
	for name, c := range map[string]struct {
		tls   nats.TLS
		wants []string
	}{
		"all files":      {nats.TLS{CAFile: cert, CertFile: cert, KeyFile: key}, nil},
		"no authority":   {nats.TLS{CertFile: cert, KeyFile: key}, []string{b.Addr, "unknown authority"}},
		"no certificate": {nats.TLS{CAFile: cert}, []string{b.Addr}},
		"no file":        {nats.TLS{CAFile: cert + "x"}, []string{"nats.tls.caFile: open " + cert + "x"}},
		"no PEM":         {nats.TLS{CAFile: "tls_test.go"}, []string{"nats.tls.caFile: tls_test.go holds no PEM certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.Task, r.source.TLS = sourcetest.Named(t, "shop", "orders"), c.tls
			if c.wants == nil {
				r.open(1).Close()
				return
			}
			sourcetest.WantError(t, r.refused(1), c.wants...)
		})
	}
}
