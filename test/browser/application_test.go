//go:build linux

package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

// The application beside a replica is shown with its instance, and with the tasks that are assigned to it.
func TestApplicationIsShown(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "shardctl-app-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	c := newCluster(t, harness.Options{})
	r, err := c.StartWith(t.Context(), "web-01", func(server, admin string) (string, error) {
		return fmt.Sprintf(`version: 1
cluster: applications
instance: web-01
store: {uri: %q}
lease: {duration: %v}
server: {listen: %q}
admin: {listen: %q}
app:
  listen: "unix:%s/app/app.sock"
  command: [env, "PYTHONPATH=%s", PYTHONDONTWRITEBYTECODE=1, python3, "%s"]
groups:
  - name: topics
    tasks: [{name: "topic-{001..003}", assign: {}}]
`, c.StoreURI, lease, server, admin, sockets, filepath.Join(root, "clients/python"),
			filepath.Join(root, "examples/application/worker.py")), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := r.Client.Status(ctx)
		return err
	})
	p := open(t, admin(r), desk)
	p.wait(`/application pid \d+, ready, for .*last call [\d.]+ s ago/.test(
		document.querySelector("#instances").innerText)`)
	p.accessible("application")
	p.do(navigate(admin(r) + "?task=topics/topic-001"))
	p.wait(`document.querySelector("#one .facts").innerText.includes("application pid ")`)
	if text := p.text("#one .facts"); !strings.Contains(text, "ready") {
		t.Errorf("the page of the task has %q", text)
	}
}
