package redis_test

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestURIs(t *testing.T) {
	storetest.URIs{
		Right: map[string]string{
			"redis://h": "", "redis://h:1/15?nodes=3": "", "redis://u:s3cret%40@h": "", "rediss://h?tlsCAFile=/ca": "",
			"redis://h?db=2": "", "redis+cluster://a,b?nodes=2": "",
			"redis+sentinel://a,b:1/shard?nodes=3&db=1&sentinelUser=s&sentinelPassword=s3cret": "",
		},
		Wrong: map[string]string{
			"redis:h":                               "must be redis://HOST",
			"redis://a,b":                           "names 2 hosts",
			"redis://h/x":                           "database by its number",
			"redis://h/1?db=2":                      "names another database",
			"redis://h?nodes=0":                     "must be 1 to 99",
			"redis://h?node=1":                      `has a parameter "node"`,
			"redis+sentinel://h?nodes=3":            "names no master",
			"redis+sentinel://h/shard":              "add nodes=N",
			"redis+cluster://h":                     "add nodes=N",
			"redis+cluster://h/1?nodes=2":           "has database 0 only",
			"rediss://h?tls=false":                  "tls=false",
			"redis://u:s3cret/word@h":               "write these as %2F",
			"redis+sentinel://u:s3cret@h/?nodes=zz": "names no master",
		},
		Configs: []storetest.Parsed{
			{Config: driver.Config{URI: "redis://h/1", Database: "2"}, Field: "uri", Says: "names another database"},
			{Config: driver.Config{URI: "redis://h", Cluster: "a b"}, Field: "cluster", Says: "must be"},
		},
		Shown: map[string]string{
			"redis+sentinel://u:s3cret@h/shard?nodes=3&sentinelPassword=s3cret": "redis+sentinel://u:xxxxx@h/shard?" +
				"nodes=3&sentinelPassword=xxxxx",
		},
		Nobody: func(addr string) string { return "redis://u:s3cret@" + addr },
	}.Run(t)
}
