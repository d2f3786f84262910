package sourcetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// secret is the password of tests in which an error must not show it.
const secret = "secret"

// WantError checks that an error says all of these, and does not show the password.
func WantError(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", says)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %q, and does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error shows the password: %v", err)
	}
}

// WantStop is [WantError] of an error that ends the task as failed.
func WantStop(t *testing.T, err error, says ...string) {
	t.Helper()
	WantError(t, err, says...)
	if !errors.Is(err, subscribe.ErrStop) {
		t.Errorf("%v does not wrap ErrStop", err)
	}
}
