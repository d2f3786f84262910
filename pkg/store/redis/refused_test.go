package redis_test

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// Settings that are changed at run time become problems.
func TestSettingsAreLookedAtAgain(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	for _, tt := range []struct{ name, good, bad, reason string }{
		{"appendfsync", "always", "everysec", "StoreNotDurable"},
		{"maxmemory-policy", "noeviction", "allkeys-lru", "StoreEviction"},
	} {
		set := func(value string) func(t *testing.T) {
			return func(t *testing.T) {
				t.Helper()
				do(t, server.Addr, "CONFIG", "SET", tt.name, value)
			}
		}
		do(t, server.Addr, "CONFIG", "SET", "appendonly", "yes")
		set(tt.good)(t)
		storetest.Settings{
			Open: func(t *testing.T) driver.Store {
				t.Helper()
				return storetest.Open(t, driver.Config{URI: "redis://" + server.Addr})
			},
			Spoil: set(tt.bad), Mend: set(tt.good), Reason: tt.reason,
		}.Run(t)
	}
}

// A key of another type in the place of the documents of a kind is told as Redis does.
func TestRefused(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	storetest.Refused{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: "redis://" + server.Addr})
		},
		Refuse: func(t *testing.T, kind driver.Kind) (mend func()) {
			t.Helper()
			key := "shardctl:{default}:" + kind.Info().Plural
			do(t, server.Addr, "RENAME", key, key+"-kept")
			do(t, server.Addr, "SET", key, "by hand")
			return func() { do(t, server.Addr, "RENAME", key+"-kept", key) }
		},
		Says: "WRONGTYPE",
	}.Run(t)
}
