package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFIFOIsRefused holds that a path that is neither a regular file nor a directory is refused instead of waited for.
func TestFIFOIsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "tasks.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("no FIFOs here:", err)
	}
	for _, path := range []string{fifo, dir} {
		done := make(chan error, 1)
		go func() {
			_, err := Load([]string{path}, optionsOf(os.LookupEnv))
			done <- err
		}()
		select {
		case err := <-done:
			if want := fifo + ": is a FIFO, want a regular file or a directory"; err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: Load waits for somebody to write into the FIFO", path)
		}
	}
}

// TestServerCAFile holds server.tls.caFile: read, shown, and refused where nothing is served over TLS.
func TestServerCAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	load := func(tls string) (*Settings, error) {
		text := "version: 1\nstore: {uri: \"sqlite:x.db\"}\nserver: {tls: " + tls + "}\ngroups: []\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load([]string{path}, optionsOf(func(string) (string, bool) { return "", false }))
	}
	s, err := load("{certFile: c.pem, keyFile: k.pem, caFile: ca.pem}")
	if err != nil {
		t.Fatal(err)
	}
	if s.Server.TLS != (TLS{CertFile: "c.pem", KeyFile: "k.pem", CAFile: "ca.pem"}) {
		t.Errorf("got %+v", s.Server.TLS)
	}
	if _, err := load("{caFile: ca.pem}"); err == nil ||
		!strings.Contains(err.Error(), "server.tls.caFile: needs certFile and keyFile") {
		t.Errorf("without a certificate: %v", err)
	}
}
