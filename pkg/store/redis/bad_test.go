package redis_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/redis"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// refused wants an error of a store that cannot be opened. See [storetest.WantError].
func refused(t *testing.T, uri string, kind error, says ...string) {
	t.Helper()
	storetest.WantRefused(t, driver.Config{URI: uri}, kind, says...)
}

func TestWrongUsers(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	do(t, server.Addr, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+info", "+eval", "+evalsha")
	do(t, server.Addr, "ACL", "SETUSER", "blind", "on", ">secret", "+@all", "~other")
	do(t, server.Addr, "ACL", "SETUSER", "default", ">secret")
	refused(t, "redis://:s3cret@"+server.Addr, driver.ErrInvalid, "wrong user or password")
	refused(t, "redis://"+server.Addr, driver.ErrInvalid, "a password is required")
	refused(t, "redis://reader:secret@"+server.Addr, driver.ErrInvalid, "lacks rights")
	refused(t, "redis://blind:secret@"+server.Addr, driver.ErrInvalid, "lacks rights")
	other := testservers.Shared(t, testservers.KindRedis)
	refused(t, "redis://"+other.Addr+"/99999999", driver.ErrInvalid, "no database of this number")
	refused(t, "redis+sentinel://"+other.Addr+"/shard?nodes=3", driver.ErrInvalid, "lacks a command")
}

func TestWrongServers(t *testing.T) {
	evicting := testservers.Start(t, testservers.KindRedis, "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	refused(t, "redis://"+evicting.Addr, driver.ErrInvalid, "set it to noeviction")
	hiding := testservers.Start(t, testservers.KindRedis, `rename-command INFO ""`)
	refused(t, "redis://"+hiding.Addr, driver.ErrInvalid, "lacks a command")
	writable := testservers.Start(t, testservers.KindRedis, "replica-read-only no")
	refused(t, "redis://"+writable.Addr, driver.ErrInvalid, "replica-read-only")

	ports, err := testprocess.FreePorts(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	gone := net.JoinHostPort(testprocess.Loopback, itoa(ports[0]))
	refused(t, "redis://"+gone, driver.ErrUnavailable, "refused")
	both := gone + "," + net.JoinHostPort(testprocess.Loopback, itoa(ports[1]))
	refused(t, "redis+sentinel://"+both+"/shard?nodes=3", driver.ErrUnavailable, "Sentinel")
}

// Replicas that no one has counted could be promoted, and be a majority of their own.
func TestUncountedReplicas(t *testing.T) {
	master := testservers.Start(t, testservers.KindRedis, "repl-diskless-sync-delay 0")
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := testservers.Start(t, testservers.KindRedis, "replicaof "+host+" "+port)
	waitFor(t, func() bool { return strings.Contains(info(t, master.Addr)["slave0"], "state=online") })
	refused(t, "redis://"+master.Addr, driver.ErrInvalid, "2 Redis servers hold the data, and nodes=1 is configured")
	refused(t, "redis://"+replica.Addr+"?nodes=2", driver.ErrUnavailable, "is a replica")
	refused(t, "redis+cluster://"+master.Addr+"?nodes=2", driver.ErrInvalid, "no cluster")

	uri := "redis://" + master.Addr
	claim(t, storetest.Open(t, driver.Config{URI: uri + "?nodes=2", Timeout: time.Second}), "g/a")
	refused(t, uri+"?nodes=3", driver.ErrInvalid,
		"nodes=3 is configured, and the key shardctl:{default}:gate keeps nodes=2")
}

func TestTooOld(t *testing.T) {
	for version, want := range map[string]string{
		"6.0.16": "too old", "5.0.7": "too old", "": "hides", "7": "hides", "6.2.0": "", "7.0.15": "", "8.2.1": "",
	} {
		err := redis.Refuse(map[string]string{"redis_version": version})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", version, err, want)
		}
	}
}

func TestProblemsAreTold(t *testing.T) {
	for config, want := range map[string]string{
		"":                             "",
		"appendfsync everysec":         redis.ReasonNotDurable,
		"appendonly no":                redis.ReasonNotDurable,
		"maxmemory-policy allkeys-lru": redis.ReasonEviction,
	} {
		server := testservers.Start(t, testservers.KindRedis, strings.Split(config, "\n")...)
		s := storetest.Open(t, driver.Config{URI: "redis://" + server.Addr})
		got := ""
		for _, p := range store.Problems(s) {
			got += p.Reason
		}
		if got != want {
			t.Errorf("%s: problems %q, want %q", config, got, want)
		}
		i, err := store.Inspect(t.Context(), s)
		holds := true
		for _, setting := range i.Settings {
			holds = holds && setting.Holds
		}
		if err != nil || !strings.HasPrefix(i.Server, "Redis ") || holds != (want == "") {
			t.Errorf("%s: %+v, %v", config, i, err)
		}
	}
}

// What was right when the store was opened may be wrong later.
func TestAPasswordThatChanges(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	do(t, server.Addr, "ACL", "SETUSER", "shardctl", "on", ">first", "~*", "&*", "+@all")
	s := storetest.Open(t, driver.Config{URI: "redis://shardctl:first@" + server.Addr})
	floor(t, s)
	do(t, server.Addr, "ACL", "SETUSER", "shardctl", "resetpass", ">second")
	do(t, server.Addr, "CLIENT", "KILL", "USER", "shardctl")
	waitFor(t, func() bool {
		_, err := s.Read(t.Context(), driver.KindLock, "g/a")
		return errors.Is(err, driver.ErrInvalid) && strings.Contains(err.Error(), "wrong user or password")
	})
}
