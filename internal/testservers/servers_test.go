//go:build unix

package testservers_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/testservers"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

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

// "none" hides also what is installed: the module of etcd can always be had.
func TestNoneFindsNothing(t *testing.T) {
	t.Setenv(testservers.EnvRequired, "none")
	var found []string
	err := testservers.ProvideAll(t.Context(), func(name string) { found = append(found, name) })
	if len(found) > 0 || !errors.Is(err, testservers.ErrMissing) ||
		!strings.Contains(err.Error(), `etcd: SHARDCTL_TEST_SERVERS is "none"`) {
		t.Errorf("found %q, %v", found, err)
	}
	_, err = testservers.Open(t.Context(), testservers.KindEtcd, t.TempDir(), testprocess.Options{})
	if !errors.Is(err, testservers.ErrMissing) {
		t.Errorf("opened: %v", err)
	}
}

func TestSharedServerIsOne(t *testing.T) {
	first, second := testservers.Shared(t, testservers.KindRedis), testservers.Shared(t, testservers.KindRedis)
	if first.Addr != second.Addr {
		t.Errorf("two servers, %s and %s", first.Addr, second.Addr)
	}
}

func TestOpenSaysWhyAServerDoesNotStart(t *testing.T) {
	testservers.Need(t, testservers.KindPostgres)
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
