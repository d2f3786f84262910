package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
)

func TestMemory(t *testing.T) {
	idempotencytest.Run(t, idempotencytest.Backend{
		Tells: true,
		Open: func(testing.TB) func(idempotency.Config) idempotency.Config {
			records := idempotency.Memory()
			return func(cfg idempotency.Config) idempotency.Config {
				cfg.Records = records
				return cfg
			}
		},
	})
}

func TestBadConfig(t *testing.T) {
	_, err := idempotency.New(idempotency.Config{Keep: 31 * 24 * time.Hour})
	for _, want := range []string{"Records and Transact: set exactly one", "Keep is 744h0m0s, want 1s to 720h0m0s"} {
		if !errors.Is(err, idempotency.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want ErrInvalid with %q", err, want)
		}
	}
}

func TestFingerprintCountsLengths(t *testing.T) {
	a := idempotency.Fingerprint([]byte("ab"), []byte("c"))
	if b := idempotency.Fingerprint([]byte("a"), []byte("bc")); a == b || len(a) != 64 {
		t.Errorf("fingerprints %s and %s, want two of 64 digits", a, b)
	}
}

// empty is work that does nothing.
func empty(context.Context) (idempotency.Reply, error) { return idempotency.Reply{}, nil }
