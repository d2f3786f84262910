//go:build linux

package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

const pictureGroups = `
groups:
  - name: topics
    cap: 30
    tasks: [{name: "topic-{01..50}", exec: {command: [sleep, "1000"]}}]
  - name: imports
    tasks:
      - {name: "{customers,prices}", exec: {command: [sleep, "1000"]}}
      - name: orders
        backoff: {initial: 100ms, max: 5m}
        exec: {command: [sh, -c, "echo connection refused; exit 3"]}
  - name: reports
    tasks: [{name: nightly, schedule: "0 2 * * *", exec: {command: [date]}}]
`

// newPictured starts five replicas. One is drained, and one task ends again and again.
func newPictured(t *testing.T) *harness.Cluster {
	t.Helper()
	c := newCluster(t, harness.Options{})
	for i := range 5 {
		name := fmt.Sprintf("web-%d", i+1)
		_, err := c.StartWith(t.Context(), name, func(server, admin string) (string, error) {
			return fmt.Sprintf(`version: 1
cluster: prod
instance: %s
zone: eu-%d
store: {uri: %q}
lease: {duration: %s}
rebalance: {settle: 300ms}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
`, name, i%3+1, c.StoreURI, lease, server, server, admin) + pictureGroups, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func(ctx context.Context) error { return owns(ctx, c, "web-5", 10) })
	ask, err := http.NewRequestWithContext(
		t.Context(), http.MethodPost, admin(c.Live()[0])+"api/v1/instances/web-5/drain",
		strings.NewReader(`{"by": "ann", "reason": "a new kernel"}`),
	)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Fatalf("drain: %s", answer.Status)
	}
	eventually(t, func(ctx context.Context) error { return owns(ctx, c, "web-5", 0) })
	return c
}

// owns says whether all topics run, so many of them on the instance.
func owns(ctx context.Context, c *harness.Cluster, instance string, want int) error {
	tasks, err := c.Live()[0].Client.Tasks(ctx)
	owned, running := 0, 0
	for _, task := range tasks {
		if task.State != "running" || !strings.HasPrefix(task.Key, "topics/") {
			continue
		}
		running++
		if task.Instance == instance {
			owned++
		}
	}
	if err == nil && (owned != want || running != 50) {
		err = fmt.Errorf("%s owns %d of %d that run, want %d of 50", instance, owned, running, want)
	}
	return err
}

// With -write the screenshots of the README are made: what is in sight, in both colour schemes.
func TestPictures(t *testing.T) {
	if *writeTo == "" {
		t.Skip("makes no pictures without -write")
	}
	c := newPictured(t)
	p := open(t, admin(c.Live()[0]), look{width: 1200, height: 1000})
	p.wait(`document.querySelector("#ht").textContent === "Tasks (54)"`)
	p.wait(`document.querySelector("#problems").innerText.includes("imports/orders")`)
	p.wait(`document.querySelector("#instances").innerText.includes("a new kernel")`)
	for name, l := range map[string]look{
		"page.png": {width: 1200, height: 1000}, "page-dark.png": {width: 1200, height: 1000, dark: true},
	} {
		p.emulate(l)
		eval[bool](p, `new Promise((resolve) => { scrollTo(0, 0); requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))); })`)
		data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		p.check(err)
		path := filepath.Join(*writeTo, name)
		p.check(os.WriteFile(path, data, 0o600))
		if const300 := 300 << 10; len(data) > const300 {
			t.Errorf("%s has %d bytes", path, len(data))
		}
	}
}
