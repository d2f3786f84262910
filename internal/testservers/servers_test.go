//go:build unix

package testservers_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/testservers"
)

func TestMain(m *testing.M) { os.Exit(testservers.Main(m)) }

// Every kind comes back on its data and its port, and makes one database after the other.
func TestServersKeepTheirPortAndMakeDatabases(t *testing.T) {
	for _, kind := range testservers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			s := testservers.Start(t, kind)
			addr, first := s.Addr, s.Database()
			if !strings.Contains(first, addr) {
				t.Errorf("%s does not name %s", first, addr)
			}
			s.Kill()
			s.Start()
			if second := s.Database(); second == first {
				t.Errorf("%s is made twice", second)
			}
			s.Freeze()
			brief, end := context.WithTimeout(t.Context(), time.Second)
			if err := s.Server().Software().Ready(brief, s.Server().Site()); err == nil {
				t.Error("a frozen server answers")
			}
			end()
			s.Thaw()
			s.Stop()
			s.Start()
			link := s.Link()
			if via := s.Via(link, s.Database()); !strings.Contains(via, link.Addr) || strings.Contains(via, addr) {
				t.Errorf("%s does not go through %s", via, link.Addr)
			}
		})
	}
}

func TestSharedServerIsOne(t *testing.T) {
	first, second := testservers.Shared(t, testservers.KindRedis), testservers.Shared(t, testservers.KindRedis)
	if first.Addr != second.Addr {
		t.Errorf("two servers, %s and %s", first.Addr, second.Addr)
	}
}

func TestOpenSaysWhyAServerDoesNotStart(t *testing.T) {
	if testing.Short() || os.Getenv(testservers.EnvRequired) == "none" {
		t.Skip("needs a real server, which make stores-short has")
	}
	_, err := testservers.Open(t.Context(), testservers.KindPostgres, t.TempDir(), testprocess.Options{
		Config: []string{"no_such_setting = 1"},
	})
	if err == nil {
		t.Fatal("it started")
	}
	for _, part := range []string{"start postgres at 127.0.0.1:", "the server exited", "no_such_setting"} {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}
