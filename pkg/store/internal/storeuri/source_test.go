package storeuri_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
	"github.com/shardctl/shardctl/test/testprocess"
)

// What is renewed is used as soon as it can be, and what names another place never is.
func TestSource(t *testing.T) {
	renewed, failed := "db://app:one@h:1,i/x?secret=s&poll=1", error(nil)
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	source, err := storeuri.NewSource(driver.Config{
		URI: renewed, Renew: func() (string, error) { return renewed, failed }, Logger: log,
	}, storeuri.Secrets{"secret"}, func(uri string) (string, error) {
		if strings.Contains(uri, "broken") {
			return "", errors.New("cannot be used")
		}
		return uri, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	used := renewed
	for _, tt := range []struct {
		uri     string
		err     error
		follows bool
	}{
		{uri: "db://app:two@h:1,i/x?secret=s&poll=1", follows: true},
		{uri: "db://v-app-7:three@h:1,i/x?secret=t&poll=1", follows: true}, // a user of its own for each password
		{uri: "db://app:@h:1,i/x?secret=t&poll=1"},
		{uri: "db://:three@h:1,i/x?secret=t&poll=1"},
		{uri: "db://app:four@h:1,i/x?secret=&poll=1"},
		{uri: "db://h:1,i/x?secret=t&poll=1"},
		{uri: ""},
		{uri: "db://app:four"},
		{uri: "db://app:four@other:1,i/x?secret=t&poll=1"},
		{uri: "db://app:four@h:1,i/y?secret=t&poll=1"},
		{uri: "db://app:four@h:1,i/x?secret=t&poll=2"},
		{uri: "db://app:four@h:1,i/x?secret=t"},
		{uri: "other://app:four@h:1,i/x?secret=t&poll=1"},
		{uri: "db://app:broken@h:1,i/x?secret=t&poll=1"},
		{uri: "db://app:four@h:1,i/x?secret=t&poll=1", err: errors.New("no such file")},
		{uri: "db://app:four@h:1,i/x?secret=t&poll=1", follows: true},
	} {
		renewed, failed = used, nil
		source.Get() // the next line is about something new
		renewed, failed = tt.uri, tt.err
		if tt.follows {
			used = tt.uri
		}
		lines = nil
		for range 2 {
			if got := source.Get(); got != used {
				t.Errorf("renewed as %s, %v: got %s, want %s", tt.uri, tt.err, got, used)
			}
		}
		if said := strings.Join(lines, "\n"); len(lines) > 1 || (said == "") != tt.follows {
			t.Errorf("renewed as %s: logged %q", tt.uri, lines)
		}
	}
	for _, secret := range []string{"one", "two", "three", "s", "t", "four", "broken"} {
		if !slices.Contains(source.Hidden(), secret) {
			t.Errorf("%s is not hidden: %q", secret, source.Hidden())
		}
	}
	if got := storeuri.Scrub("threetwo", source.Hidden()); strings.Contains(got, "hree") {
		t.Errorf("a longer secret is hidden in part: %s", got)
	}
}

// Files of TLS are read at each connection. Where they cannot be used, as a certificate without its key, or none, the
// last ones are.
func TestSourceReadsFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	copied := func(name, from string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(at(name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cert, key := testprocess.Certificate(t, "old")
	copied("ca", cert)
	copied("cert", cert)
	copied("key", key)
	syntax := storeuri.Syntax{TLS: true}
	uri := "db://h?tlsCAFile=" + at("ca") + "&tlsCertFile=" + at("cert") + "&tlsKeyFile=" + at("key")
	read := func(uri string) (string, error) {
		u, err := syntax.Parse(uri)
		if err != nil {
			return "", err
		}
		files, err := u.TLS(false)
		if err != nil {
			return "", err
		}
		config, err := files.Config()
		if err != nil {
			return "", err
		}
		pair, err := config.GetClientCertificate(nil)
		if err != nil {
			return "", err
		}
		return pair.Leaf.Subject.CommonName, nil
	}
	source, err := storeuri.NewSource(driver.Config{URI: uri}, nil, read)
	if err != nil {
		t.Fatal(err)
	}
	want := func(name string) {
		t.Helper()
		if got := source.Get(); got != name {
			t.Errorf("the certificate of %s is used, want that of %s", got, name)
		}
	}
	want("old")
	next, nextKey := testprocess.Certificate(t, "new")
	copied("cert", next)
	want("old")
	copied("key", nextKey)
	want("new")
	for _, name := range []string{"ca", "key"} {
		if err := os.Truncate(at(name), 10); err != nil {
			t.Fatal(err)
		}
		want("new")
	}
	if err := os.Remove(at("cert")); err != nil {
		t.Fatal(err)
	}
	want("new")
	if _, err := storeuri.NewSource(driver.Config{URI: uri}, nil, read); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("opened with files that cannot be used: %v, want ErrInvalid", err)
	}
}
