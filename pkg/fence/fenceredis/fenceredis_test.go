package fenceredis_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fenceredis"
	"github.com/shardctl/shardctl/pkg/fence/fencetest"
	"github.com/shardctl/shardctl/test/stale"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) {
	stale.Main(kinds)
	os.Exit(testprocess.Main(m))
}

var (
	appendTo = fenceredis.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`)
	set      = fenceredis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
)

// place is one text.
type place struct{ *redis.Client }

var kinds = stale.Kinds{"redis": func(_ context.Context, target string) (stale.Place, error) {
	options, err := redis.ParseURL(target)
	if err != nil {
		return nil, err
	}
	return place{redis.NewClient(options)}, nil
}}

func (p place) Write(ctx context.Context, c fence.Claim, text string) error {
	return set.Run(ctx, p, c, []string{"report"}, text).Err()
}

func (p place) Bare(ctx context.Context, text string) error {
	return p.Set(ctx, "report", text, 0).Err()
}
func (p place) Read(ctx context.Context) (string, error) { return p.Get(ctx, "report").Result() }

func connect(t *testing.T, uri string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(uri)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestScript(t *testing.T) {
	server := testservers.Shared(t, testservers.KindRedis)
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		return subject(t, server.Database())
	})
}

func subject(t *testing.T, uri string) fencetest.Subject {
	t.Helper()
	client := connect(t, uri)
	return fencetest.Subject{
		Write: func(ctx context.Context, c fence.Claim, entry string) error {
			return appendTo.Run(ctx, client, c, []string{"log:" + c.Key}, entry).Err()
		},
		Log: func(ctx context.Context, key string) ([]string, error) {
			return client.LRange(ctx, "log:"+key, 0, -1).Result()
		},
		Reopen: func() fencetest.Subject { return subject(t, uri) },
	}
}

func TestStaleOwnerIsRefused(t *testing.T) {
	stale.Run(t, kinds, "redis", testservers.Shared(t, testservers.KindRedis).Database())
}

// The caller's script has its own keys and arguments, and its reply and error come through.
func TestScriptOfTheCaller(t *testing.T) {
	client := connect(t, testservers.Shared(t, testservers.KindRedis).Database())
	c := fence.Exclusive("k", 7)
	got, err := fenceredis.NewScript(`local all = {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1]} -- a comment ends it`+
		"\nreturn all -- and another").Run(t.Context(), client, c, []string{"a", "b"}, "x").Slice()
	if err != nil || len(got) != 5 || got[0] != int64(2) || got[1] != int64(1) || got[2] != "a" || got[3] != "b" ||
		got[4] != "x" {
		t.Errorf("%v, %v", got, err)
	}
	if err := fenceredis.NewScript(`return nil`).Run(t.Context(), client, c, nil).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("of a script that returns nothing: %v, want redis.Nil", err)
	}
	err = fenceredis.NewScript(`return redis.call('NOSUCH')`).Run(t.Context(), client, c, nil).Err()
	if err == nil || errors.Is(err, fence.ErrOld) || !strings.Contains(err.Error(), c.String()) {
		t.Errorf("of a script that fails: %v", err)
	}
}

func TestCheck(t *testing.T) {
	client := connect(t, testservers.Shared(t, testservers.KindRedis).Database())
	if err := fenceredis.Check(t.Context(), client, fence.Shared("k", 9)); err != nil {
		t.Error(err)
	}
	if err := fenceredis.Check(t.Context(), client, fence.Exclusive("k", 8)); !errors.Is(err, fence.ErrOld) {
		t.Errorf("%v, want ErrOld", err)
	}
	if ttl := client.TTL(t.Context(), fenceredis.Key("k")).Val(); ttl != -1 {
		t.Errorf("the marks expire in %v", ttl)
	}
}

func ExampleScript_Run() {
	save := fenceredis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
	report := func(ctx context.Context, rdb *redis.Client, token int64, text string) error {
		return save.Run(ctx, rdb, fence.Exclusive("reports/monthly", token), []string{"report"}, text).Err()
	}
	_ = report
	// Output:
}
