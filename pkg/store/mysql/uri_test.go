package mysql_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestURIs(t *testing.T) {
	storetest.URIs{
		Right: map[string]string{
			"mysql://u@h":                                 "shardctl",
			"mysql://u:s3cret%40@h:3307/locks":            "locks",
			"mysql://u@[::1]:3306/locks?pollMillis=50":    "locks",
			"mysql://u@h/locks?tls=true&tlsCAFile=ca.pem": "locks",
		},
		Wrong: map[string]string{
			"mysql://h/locks":                               "names no user",
			"mysql://u@a,b/locks":                           "names 2 hosts",
			"mysql://u@h/a/b":                               "wrong database",
			"mysql://u@h/a`b":                               "wrong database",
			"mysql://u@h/locks?charset=sjis":                `a parameter "charset"`,
			"mysql://u@h/locks?pollMillis=1":                "must be 5 to 60000",
			"mysql://u:s3/cret@h/locks":                     "write these as %2F",
			"mysql://u:s3cret@h/?tlsKeyFile=k":              "needs tlsCertFile",
			"mysql://u:s3cret@h/?tls=false&tlsCAFile=a":     "beside files of TLS",
			"mysql://u:s3cret@h/x?multiStatements=true":     "a parameter",
			"mysql://u:s3cret@h/" + strings.Repeat("x", 65): "wrong database",
		},
		Shown:  map[string]string{"mysql://u:s3cret@h/locks?tls=true": "mysql://u:xxxxx@h/locks?tls=true"},
		Nobody: func(addr string) string { return "mysql://u:s3cret@" + addr + "/x" },
	}.Run(t)
}
