package mongo_test

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestURIs(t *testing.T) {
	u := storetest.URIs{
		Right: map[string]string{
			"mongodb://h": mongo.DefaultDatabase, "mongodb://u:s3cret@h1,h2:27018/orders?w=1": "orders",
			"mongodb+srv://u:s3cret@h.example/orders": "orders",
		},
		Configs: []storetest.Parsed{
			{Config: driver.Config{URI: "mongodb://h/orders", Database: "mine"}, Database: "mine"},
			{Config: driver.Config{URI: "mongodb://u:s3cret@h/a", Database: "a b"}, Field: "database"},
			{Config: driver.Config{URI: "mongodb://u:s3cret@h/", Database: "a/b"}, Field: "database"},
			{Config: driver.Config{URI: "mongodb://u:s3cret@h/a", Cluster: "a.b"}, Field: "cluster"},
		},
		Shown: map[string]string{
			"mongodb://h:1/db?replicaSet=r":                     "mongodb://h:1/db?replicaSet=r",
			"mongodb://user@h/db":                               "mongodb://user@h/db",
			"mongodb://user:s3cret@h1:1,h2:2/db?w=1":            "mongodb://user:xxxxx@h1:1,h2:2/db?w=1",
			"mongodb+srv://user:s3cret@cluster.example.com":     "mongodb+srv://user:xxxxx@cluster.example.com",
			"mongodb://user:@h":                                 "mongodb://user:xxxxx@h",
			"mongodb://user:s3@cret@h/":                         "mongodb://user:xxxxx@h/",
			"mongodb://user:s3/cret?x@h/":                       "mongodb://user:xxxxx@h/",
			"mongodb://user:s3:cret@h/":                         "mongodb://user:xxxxx@h/",
			"mongodb://h/?TLSCertificateKeyFilePassword=s3cret": "mongodb://h/?TLSCertificateKeyFilePassword=xxxxx",
			"mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:s3cret&tls=true": "mongodb://h/?" +
				"authMechanismProperties=xxxxx&tls=true",
		},
		Nobody: func(addr string) string { return "mongodb://user:s3cret@" + addr + "/" },
	}
	for _, wrong := range []string{
		"mongodb:h", "mongodb://", "mongodb://u:s3cret@", "mongodb://h1:99999", "mongodb://user:s3cret@h:123456/",
		"mongodb://user:s3cret@x@h/", "mongodb://user:s3cret/x@h/", "mongodb://user:s3cret%zz@h/",
		"mongodb://u:s3cret@h/x?authMechanism=none", "mongodb://u:s3cret@h/x?replicaSet=a&maxPoolSize=many",
		"mongodb://user:s3cret@h/?replicaSet=a&directConnection=maybe", "mongodb://u:s3cret@h/a$b",
	} {
		u.Configs = append(u.Configs, storetest.Parsed{Config: driver.Config{URI: wrong}, Field: "uri"})
	}
	u.Run(t)
	for uri, want := range map[string]string{"user:s3cret@h": "user:xxxxx@h", "": ""} { // with no scheme
		if got := mongo.Redact(uri); got != want {
			t.Errorf("%s is shown as %s, want %s", uri, got, want)
		}
	}
	for name, o := range map[string]mongo.Options{
		"no URI": {}, "no scheme": {URI: "user:s3cret@db.example.com"},
		"other scheme":      {URI: "postgres://user:s3cret@db.example.com/"},
		"negative time-out": {URI: "mongodb://user:s3cret@h/", Timeout: -1},
	} {
		_, err := mongo.Open(t.Context(), o)
		storetest.WantError(t, err, driver.ErrInvalid)
		t.Log(name, err)
	}
}
