package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mysql"
)

func TestParse(t *testing.T) {
	for uri, want := range map[string]string{
		"mysql://u@h":                                 "shardctl",
		"mysql://u:p%40@h:3307/locks":                 "locks",
		"mysql://u@[::1]:3306/locks?pollMillis=50":    "locks",
		"mysql://u@h/locks?tls=true&tlsCAFile=ca.pem": "locks",
	} {
		c, err := store.Parse(store.Config{URI: uri})
		if err != nil || c.Database != want || c.Cluster != "default" {
			t.Errorf("%s: got %+v, %v", uri, c, err)
		}
	}
	for uri, want := range map[string]string{
		"mysql://h/locks":                               "names no user",
		"mysql://u@a,b/locks":                           "names 2 hosts",
		"mysql://u@h/a/b":                               "wrong database",
		"mysql://u@h/a`b":                               "wrong database",
		"mysql://u@h/locks?charset=sjis":                `a parameter "charset"`,
		"mysql://u@h/locks?pollMillis=1":                "must be 5 to 60000",
		"mysql://u:se/cret@h/locks":                     "write these as %2F",
		"mysql://u:secret@h/?tlsKeyFile=k":              "needs tlsCertFile",
		"mysql://u:secret@h/?tls=false&tlsCAFile=a":     "beside files of TLS",
		"mysql://u:secret@h/x?multiStatements=true":     "a parameter",
		"mysql://u:secret@h/" + strings.Repeat("x", 65): "wrong database",
	} {
		_, err := store.Parse(store.Config{URI: uri})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: got %v, want %q and no password", uri, err, want)
		}
	}
}

func TestRedact(t *testing.T) {
	if got := mysql.Redact("mysql://u:secret@h/locks?tls=true"); got != "mysql://u:xxxxx@h/locks?tls=true" {
		t.Errorf("got %s", got)
	}
}
