package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// The first row that matches says what an error means and what to do. What is in none may pass.
func TestCauses(t *testing.T) {
	full := errors.New("full")
	c := &engine.Causes{Secrets: func() []string { return []string{"s3cret"} }, Table: append([]engine.Cause{
		{Is: full, Means: store.ErrUnavailable, Advice: "make space"},
		{Says: "wrong password", Advice: "correct the URI"},
		{Match: func(err error) (string, bool) { return "too long", strings.HasPrefix(err.Error(), "long") }},
	}, engine.TLS()...)}
	for _, tt := range []struct {
		err   error
		means error
		text  string
	}{
		{fmt.Errorf("write: %w", full), store.ErrUnavailable, "try: store unavailable: make space (write: full)"},
		{
			errors.New("wrong password s3cret"), store.ErrInvalid,
			"try: store refused: correct the URI (wrong password xxxxx)",
		},
		{errors.New("long text"), store.ErrInvalid, "try: store refused: too long"},
		{errors.New("other"), store.ErrUnavailable, "try: store unavailable: other"},
		{errors.New("x509: expired"), store.ErrInvalid, "certificate is not valid"},
		{fmt.Errorf("%w: 7", store.ErrSchema), store.ErrSchema, "try: store has another schema: 7"},
		{fmt.Errorf("%w: s3cret", store.ErrInvalid), store.ErrInvalid, "xxxxx"},
	} {
		err := c.Translate("try", tt.err)
		if !errors.Is(err, tt.means) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v: %v, want %v that says %q", tt.err, err, tt.means, tt.text)
		}
		if lasting := !errors.Is(tt.means, store.ErrUnavailable); c.Lasting(tt.err) != lasting {
			t.Errorf("%v: lasting is %t", tt.err, !lasting)
		}
	}
	if err := c.Translate("try", nil); err != nil {
		t.Error(err)
	}
}
