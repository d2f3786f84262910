package mongo

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// A password may be any word, also one that stands in every error: what went wrong must be distinguished all the same.
func TestClassOfErrorsThatHoldThePassword(t *testing.T) {
	c := causes(func() []string { return []string{"locks"} })
	for _, tc := range []struct {
		err  error
		want error
		text string
	}{
		{
			mongo.CommandError{
				Code:    codeUnauthorized,
				Message: `not authorized on db to execute command { insert: "c.locks", ordered: true }`,
			},
			driver.ErrInvalid, "the user lacks the privilege insert on db.c.xxxxx",
		},
		{
			mongo.CommandError{Code: 189, Message: "stepped down with locks"},
			driver.ErrUnavailable,
			"stepped down with xxxxx",
		},
		{
			mongo.CommandError{Code: 13, Message: "command insert of locks requires authentication"},
			driver.ErrInvalid,
			"requires authentication",
		},
	} {
		err := c.Translate("try", tc.err)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) ||
			strings.Contains(err.Error(), "locks") {
			t.Errorf("%v, want %v that says %q", err, tc.want, tc.text)
		}
	}
}
