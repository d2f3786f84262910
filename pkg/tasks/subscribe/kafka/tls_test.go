package kafka

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
)

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	b := fake(t, kfake.TLS(server.TLS.Clone()))
	for want, as := range map[string]TLS{
		"the topic does not exist": {Enabled: true, CAFile: ca},
		"set kafka.tls.caFile to the authority of the broker's certificate":  {Enabled: true},
		"the broker closed the connection at once, check kafka.tls":          {},
		"kafka.tls.caFile: tls_test.go holds no PEM certificate":             {Enabled: true, CAFile: "tls_test.go"},
		"kafka.tls.certFile, keyFile: tls: failed to find any PEM data in k": {Enabled: true, CertFile: ca, KeyFile: "doc.go"},
	} {
		sourcetest.WantError(t, b.Refused(b.source("orders", func(s *Source) { s.TLS = as }), 1), want)
	}
}
