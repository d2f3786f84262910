package storeuri_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

var syntax = storeuri.Syntax{DefaultPort: 2379, Params: []string{"nodes", "strict"}, TLS: true}

func TestParse(t *testing.T) {
	for uri, want := range map[string]string{
		"etcd://h":                             "[h:2379]",
		"etcd://h:1,[::1]:2,[::1]":             "[h:1 [::1]:2 [::1]:2379]",
		"etcd://u:p%40%2Fs@h/a/b?nodes=3":      "u p@/s [h:2379] a/b",
		"etcd://u@h/?nodes=3&strict=true":      "u [h:2379]",
		"etcd://h?nodes=a%40b":                 "[h:2379]",
		"etcd://a@b@h":                         "a@b [h:2379]",
		"etcd://h?tlsCAFile=%2Fa%20b&tls=true": "[h:2379]",
	} {
		u, err := syntax.Parse(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		got := strings.Join(strings.Fields(fmt.Sprint(u.User, " ", u.Password, " ", u.Hosts, " ", u.Path)), " ")
		if got != want || u.Scheme != "etcd" {
			t.Errorf("%s: got %s, want %s", uri, got, want)
		}
	}
}

func TestWrongURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"etcd:h":               "must be etcd://HOST",
		"etcd://":              "names no host, must be etcd://HOST[:PORT][,HOST[:PORT]…]",
		"etcd://u:secret@":     "names no host",
		"etcd://h:0":           "has wrong hosts",
		"etcd://h:65536":       "has wrong hosts",
		"etcd://h,,i":          "has wrong hosts",
		"etcd://h,h:2379":      "names h:2379 twice",
		"etcd://u:sec%zzret@h": "% that no two hexadecimal digits follow",
		"etcd://u:sec/ret@h":   "with a /, ? or @ in it",
		"etcd://h/%zz":         "has a path with a %",
		"etcd://h?a=%zz":       "are not NAME=VALUE",
		"etcd://h?node=3": `a parameter "node", which is none of nodes, strict, tls, tlsCAFile, ` +
			"tlsCertFile, tlsKeyFile",
		"etcd://h?nodes=3&nodes=": "the parameter nodes 2 times",
	} {
		_, err := syntax.Parse(uri)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", uri, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: the error shows the password: %v", uri, err)
		}
	}
	one := storeuri.Syntax{OneHost: true}
	if _, err := one.Parse("mysql://a,b"); err == nil || !strings.Contains(err.Error(), "names 2 hosts") {
		t.Errorf("got %v", err)
	}
}

func TestParams(t *testing.T) {
	u, err := syntax.Parse("etcd://h?nodes=3&strict=true")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := u.Whole("nodes", 1, 1, 9); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := u.Whole("more", 7, 1, 9); n != 7 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := u.Whole("nodes", 1, 1, 2); err == nil || !strings.Contains(err.Error(), `nodes="3", must be 1 to 2`) {
		t.Errorf("got %v", err)
	}
	if b, err := u.Bool("strict"); !b || err != nil {
		t.Errorf("got %t, %v", b, err)
	}
	if _, err := u.Bool("nodes"); err == nil {
		t.Error("3 is true or false")
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{
		"":                            "off",
		"?tls=true":                   "on",
		"?tls=yes":                    "must be true or false",
		"?tlsCertFile=c":              "needs tlsKeyFile",
		"?tlsKeyFile=c":               "needs tlsCertFile",
		"?tls=false&tlsCAFile=c":      "beside files of TLS",
		"?tlsCAFile=" + junk:          "holds no PEM certificate",
		"?tlsCAFile=" + dir + "/none": "no such file",
		"?tlsCertFile=a&tlsKeyFile=b": "no such file",
	} {
		u, err := syntax.Parse("etcd://h" + params)
		if err != nil {
			t.Fatal(err)
		}
		got := "off"
		files, err := u.TLS(false)
		if err == nil {
			config, failed := files.Config()
			if config != nil {
				got = "on"
			}
			err = failed
		}
		if err != nil {
			got = err.Error()
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: %v is not about settings", params, err)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
	}
	u, _ := syntax.Parse("rediss://h?tls=false")
	if _, err := u.TLS(true); err == nil || !strings.Contains(err.Error(), "its scheme forbids") {
		t.Errorf("got %v", err)
	}
}
