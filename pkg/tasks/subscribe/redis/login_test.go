package redis_test

import (
	"os"
	"path/filepath"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
)

func TestLogin(t *testing.T) {
	b := testbroker.Redis(t, "user ann on >s3cret ~* +@all", "user bob on >other ~* +@read", "user default off",
		"user carl on >s3cret ~s ~{s}:shardctl:* +@read +@stream +@scripting +@hash +@connection +time +type")
	admin := goredis.NewClient(&goredis.Options{Addr: b.Addr, Username: "ann", Password: "s3cret"})
	t.Cleanup(func() { _ = admin.Close() })
	entry := &goredis.XAddArgs{Stream: "s", Values: []any{"body", "x"}}
	if err := admin.XAdd(sourcetest.Context(t), entry).Err(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url   string
		login redis.Login
		wants []string
	}{
		"field":     {"redis://" + b.Addr, redis.Login{User: "ann", Password: "s3cret"}, nil},
		"file":      {"redis://" + b.Addr, redis.Login{User: "ann", PasswordFile: file}, nil},
		"url":       {"redis://ann:s3cret@" + b.Addr, redis.Login{}, nil},
		"none":      {"redis://" + b.Addr, redis.Login{}, []string{"NOAUTH", "redis.password", b.Addr}},
		"few":       {"redis://carl:s3cret@" + b.Addr, redis.Login{}, nil},
		"wrong":     {"redis://" + b.Addr, redis.Login{User: "ann", Password: "secret"}, []string{"WRONGPASS", "user"}},
		"wrong url": {"redis://ann:secret@" + b.Addr, redis.Login{}, []string{"WRONGPASS", "redis.user"}},
		"no file":   {"redis://" + b.Addr, redis.Login{PasswordFile: file + "x"}, []string{"redis.passwordFile", "no such"}},
		"rights":    {"redis://" + b.Addr, redis.Login{User: "bob", Password: "other"}, []string{"NOPERM", "ACL SETUSER"}},
		"tls":       {"rediss://" + b.Addr, redis.Login{}, []string{"no answer within 5s", b.Addr}},
	} {
		t.Run(name, func(t *testing.T) {
			source := redis.Source{URL: c.url, Stream: "s", Login: c.login}
			r := &rig{sourcetest.Named(t, "shop", "orders"), admin, source}
			if c.wants == nil {
				s := r.open(1)
				s.Ack(s.Take(1)...)
				if lag := s.Lag(); lag.Messages != 0 {
					t.Errorf("lag %+v", lag)
				}
				s.Close()
				r.do("DEL", "{s}:shardctl:shardctl.shop.orders")
				r.do("XGROUP", "DESTROY", "s", "shardctl.shop.orders")
				return
			}
			sourcetest.WantError(t, r.refused(1), c.wants...)
		})
	}
}
