package dbstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// The first row that matches says what an error means and what to do. What is in none may pass.
func TestCauses(t *testing.T) {
	full := errors.New("full")
	c := &dbstore.Causes{Secrets: func() []string { return []string{"s3cret"} }, Table: append([]dbstore.Cause{
		{Is: full, Means: driver.ErrUnavailable, Advice: "make space"},
		{Says: "wrong password", Advice: "correct the URI"},
		{Match: func(err error) (string, bool) { return "too long", strings.HasPrefix(err.Error(), "long") }},
	}, dbstore.TLS()...)}
	for _, tt := range []struct {
		err   error
		means error
		text  string
	}{
		{fmt.Errorf("write: %w", full), driver.ErrUnavailable, "try: store unavailable: make space (write: full)"},
		{
			errors.New("wrong password s3cret"), driver.ErrInvalid,
			"try: store refused: correct the URI (wrong password xxxxx)",
		},
		{errors.New("long text"), driver.ErrInvalid, "try: store refused: too long"},
		{errors.New("other"), driver.ErrUnavailable, "try: store unavailable: other"},
		{errors.New("x509: expired"), driver.ErrInvalid, "certificate is not valid"},
		{fmt.Errorf("%w: 7", driver.ErrSchema), driver.ErrSchema, "try: store has another schema: 7"},
		{fmt.Errorf("%w: s3cret", driver.ErrInvalid), driver.ErrInvalid, "xxxxx"},
	} {
		err := c.Translate("try", tt.err)
		if !errors.Is(err, tt.means) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v: %v, want %v that says %q", tt.err, err, tt.means, tt.text)
		}
		if lasting := !errors.Is(tt.means, driver.ErrUnavailable); c.Lasting(tt.err) != lasting {
			t.Errorf("%v: lasting is %t", tt.err, !lasting)
		}
	}
	if err := c.Translate("try", nil); err != nil {
		t.Error(err)
	}
}
