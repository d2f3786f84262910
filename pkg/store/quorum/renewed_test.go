package quorum_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Each server's part of the URI is renewed, and all passwords change at once.
func TestPasswords(t *testing.T) {
	servers := redises(t, 3)
	links := make([]*testprocess.Proxy, len(servers))
	for i, s := range servers {
		links[i] = s.Link()
	}
	change := func(_, now string) {
		t.Helper()
		for i, s := range servers {
			client := redis.NewClient(&redis.Options{Addr: s.Addr})
			err := client.Do(
				t.Context(), "ACL", "SETUSER", "app", "on", "resetpass", ">"+now, "~*", "&*", "+@all",
			).Err()
			_ = client.Close()
			if err != nil {
				t.Fatal(err)
			}
			links[i].Cut()
		}
	}
	uri := func(password string) string {
		all := make([]string, len(links))
		for i, link := range links {
			all[i] = "redis://app:" + password + "@" + link.Addr
		}
		return "quorum:" + strings.Join(all, ",")
	}
	change("", storetest.FirstPassword)
	if err := initURI(t.Context(), uri(storetest.FirstPassword)); err != nil {
		t.Fatal(err)
	}
	storetest.Passwords{URI: uri, Change: change, WatchEnds: true}.Run(t)
}
