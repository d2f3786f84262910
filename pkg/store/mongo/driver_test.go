package mongo

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
)

// What Open would refuse without the network is refused before, field by field, and no password is shown.
func TestParse(t *testing.T) {
	tests := []struct {
		c               store.Config
		database, field string
	}{
		{store.Config{URI: "mongodb://h"}, DefaultDatabase, ""},
		{store.Config{URI: "mongodb://u:opensesame@h1,h2:27018/orders?w=1"}, "orders", ""},
		{store.Config{URI: "mongodb://h/orders", Database: "mine"}, "mine", ""},
		{store.Config{URI: "mongodb+srv://u:opensesame@h.example/orders"}, "orders", ""},
		{store.Config{URI: "mongodb:h"}, "", "uri"},
		{store.Config{URI: "mongodb://u:opensesame@"}, "", "uri"},
		{store.Config{URI: "mongodb://h1:99999"}, "", "uri"},
		{store.Config{URI: "mongodb://u:opensesame@h/x?authMechanism=none"}, "", "uri"},
		{store.Config{URI: "mongodb://u:opensesame@h/x?replicaSet=a&maxPoolSize=many"}, "", "uri"},
		{store.Config{URI: "mongodb://h/a$b"}, "", "uri"},
		{store.Config{URI: "mongodb://h/a", Database: "a b"}, "", "database"},
		{store.Config{URI: "mongodb://h/a", Cluster: "a.b"}, "", "cluster"},
	}
	for _, tt := range tests {
		got, err := store.Parse(tt.c)
		if tt.field == "" {
			if err != nil || got.Database != tt.database {
				t.Errorf("%+v: database %q, %v; want %q", tt.c, got.Database, err, tt.database)
			}
			continue
		}
		wrong, ok := errors.AsType[*store.FieldError](err)
		if !ok || wrong.Field != tt.field || strings.Contains(err.Error(), "opensesame") {
			t.Errorf("%+v: %v, want a FieldError of %s without the password", tt.c, err, tt.field)
		}
	}
}
