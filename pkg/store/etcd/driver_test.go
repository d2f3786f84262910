package etcd_test

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestURIs(t *testing.T) {
	storetest.URIs{
		Right: map[string]string{"etcd://h": "shardctl", "etcd://u:s3cret@h:1,i/tasks?tls=true": "tasks"},
		Wrong: map[string]string{
			"etcd:h":                         "must be etcd://HOST",
			"etcd://":                        "names no host",
			"etcd://u@h":                     "has a user or a password alone",
			"etcd://h/a/b":                   "names a wrong prefix",
			"etcd://h?prefix=a":              `a parameter "prefix", which is none of`,
			"etcd://u:s3cret@h?tlsKeyFile=k": "needs tlsCertFile",
		},
		Configs: []storetest.Parsed{
			{Config: driver.Config{URI: "etcd://h/tasks", Database: "mine", Cluster: "blue"}, Database: "mine"},
			{Config: driver.Config{URI: "etcd://h", Database: "a b"}, Field: "database", Says: "names a wrong prefix"},
			{Config: driver.Config{URI: "etcd://h", Cluster: "a/b"}, Field: "cluster", Says: "must be"},
		},
		Shown:  map[string]string{"etcd://root:s3cret@127.0.0.1:1/p": "etcd://root:xxxxx@127.0.0.1:1/p"},
		Nobody: func(addr string) string { return "etcd://root:s3cret@" + addr + "/p" },
	}.Run(t)
}
