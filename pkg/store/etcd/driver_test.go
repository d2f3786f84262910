package etcd_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/etcd"
)

func TestParseFillsInWhatWasLeftOut(t *testing.T) {
	for uri, want := range map[string]string{
		"etcd://h": "shardctl", "etcd://u:p@h:1,i/tasks?tls=true": "tasks",
	} {
		c, err := store.Parse(store.Config{URI: uri})
		if err != nil || c.Database != want || c.Cluster != "default" {
			t.Errorf("%s: got database %q, cluster %q, %v; want database %q", uri, c.Database, c.Cluster, err, want)
		}
	}
	c, err := store.Parse(store.Config{URI: "etcd://h/tasks", Database: "mine", Cluster: "blue"})
	if err != nil || c.Database != "mine" || c.Cluster != "blue" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		config store.Config
		want   string
	}{
		{store.Config{URI: "etcd:h"}, "store.uri: must be etcd://HOST"},
		{store.Config{URI: "etcd://"}, "store.uri: names no host"},
		{store.Config{URI: "etcd://u@h"}, "store.uri: has a user or a password alone"},
		{store.Config{URI: "etcd://h/a/b"}, "store.uri: names a wrong prefix"},
		{store.Config{URI: "etcd://h", Database: "a b"}, "store.database: names a wrong prefix"},
		{store.Config{URI: "etcd://h", Cluster: "a/b"}, "store.cluster: must be"},
		{store.Config{URI: "etcd://h?prefix=a"}, `a parameter "prefix", which is none of`},
		{store.Config{URI: "etcd://u:secret@h?tlsKeyFile=k"}, "needs tlsCertFile"},
	} {
		_, err := store.Parse(tt.config)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", tt.config.URI, err, tt.want)
		}
	}
}

func TestPasswordIsHidden(t *testing.T) {
	const uri = "etcd://root:s3cr3t@127.0.0.1:1/p"
	d, err := store.Lookup(uri)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Redact(uri); got != "etcd://root:xxxxx@127.0.0.1:1/p" {
		t.Errorf("shown as %s", got)
	}
	_, err = etcd.Open(t.Context(), etcd.Options{URI: uri, Timeout: time.Second})
	if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("open where no server listens: %v", err)
	}
}
