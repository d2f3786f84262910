//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

// newCluster makes a cluster without replicas on a SQLite file of its own.
func newCluster(t *testing.T, o harness.Options) *harness.Cluster {
	t.Helper()
	dir := t.TempDir()
	o.StoreURI = "sqlite:" + filepath.Join(dir, "store.db")
	if o.Lease == 0 {
		o.Lease = lease
	}
	o.Settle = 300 * time.Millisecond
	c, err := harness.NewCluster(bins, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(4))
		}
		c.Close()
	})
	return c
}

// fiveByHundred are five replicas with a hundred tasks, spread evenly.
func fiveByHundred(t *testing.T) *harness.Cluster {
	t.Helper()
	const tasks = 100
	c := newCluster(t, harness.Options{Cap: 30, Tasks: tasks})
	if err := c.Scale(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return c.CheckSpread(ctx, tasks) })
	return c
}

// eventually repeats a check until it passes.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("still after %v: %v", patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// server and admin are the addresses of the page on the two listeners of a replica.
func server(r *harness.Replica) string { return "http://" + r.Client.Server + "/" }
func admin(r *harness.Replica) string  { return r.Client.AdminURL() + "/" }

// shop is a cluster with something of everything: what runs, what fails, what waits. Its replicas share a directory,
// where a file `broken` makes the reports fail.
type shop struct {
	*harness.Cluster
	dir    string
	tokens string // path of the file of tokens; empty: none
}

// longName is a name as long as names may be.
var longName = "report-" + strings.Repeat("of-the-orders-", 17) + "end"

const shopGroups = `
groups:
  - name: orders
    cap: 8
    tasks:
      - {name: "shard-{01..08}", labels: {team: core}, exec: {command: [sh, -c, 'echo "consuming $SHARDCTL_TASK"; exec sleep 1000']}}
      - {name: LONG, exec: {command: [sleep, "1000"]}}
  - name: mail
    tasks:
      - name: sync-customers
        labels: {team: crm}
        backoff: {initial: 200ms, max: 1m}
        exec: {command: [sh, -c, 'echo "<b>dial tcp 10.0.0.7:5432</b>: connection refused" >&2; exit 1']}
      - {name: probe, http: {url: "http://127.0.0.1:9/probe", timeout: 500ms}, every: 1h}
      - {name: ping, every: 1s, exec: {command: [echo, pong]}}
  - name: models
    instances: {selector: {pool: gpu}}
    tasks:
      - {name: train, exec: {command: [sleep, "1000"]}}
  - name: reports
    tasks:
      - name: nightly-{report,export}
        schedule: "0 0 1 1 *"
        exec:
          command:
            - sh
            - -c
            - |
              echo "connecting to the warehouse"
              test -e 'DIR/broken' || { echo "412 rows written"; exit 0; }
              echo 'ERROR: relation "orders_2026" does not exist' >&2
              exit 3
  - name: jobs
    tasks:
      - {name: import-2026, restart: never, exec: {command: [echo, imported]}}
      - {name: migrate, restart: never, exec: {command: [sh, -c, 'echo "no such column: vat"; exit 4']}}
`

// newShop starts two replicas.
func newShop(t *testing.T, tokens string) *shop {
	t.Helper()
	s := &shop{Cluster: newCluster(t, harness.Options{}), dir: t.TempDir()}
	s.file(t, "broken", "")
	if tokens != "" {
		s.tokens = s.file(t, "tokens", tokens)
	}
	for _, name := range []string{"web-1", "web-2"} {
		_, err := s.StartWith(t.Context(), name, func(server, admin string) (string, error) {
			return s.config(name, server, admin), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.Live() {
		eventually(t, func(ctx context.Context) error {
			if code, err := r.Client.Health(ctx, "/readyz"); err != nil || code != http.StatusOK {
				return fmt.Errorf("%s is not ready: %d %w", r.Name, code, err)
			}
			return nil
		})
	}
	return s
}

func (s *shop) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *shop) config(name, server, admin string) string {
	header := fmt.Sprintf(`version: 1
cluster: shop
instance: %s
zone: eu-%s
store: {uri: %q}
lease: {duration: 10s}
rebalance: {settle: 300ms}
shutdown: {timeout: 5s}
server: {listen: %q, advertise: %q}
admin: {listen: %q, tokensFile: %q}
`, name, string("abc"[len(s.Live())%3]), s.StoreURI, server, server, admin, s.tokens)
	return header + strings.NewReplacer("LONG", longName, "DIR", s.dir).Replace(shopGroups)
}

// command runs shardctl and asks the first replica.
func (s *shop) command(t *testing.T, args ...string) string {
	t.Helper()
	got, err := harness.Command(t.Context(), bins.Shardctl, append(args, "--server", s.Live()[0].Client.AdminURL())...)
	if err != nil || got.Code != 0 {
		t.Fatalf("%v: %+v %v", args, got, err)
	}
	return got.Stdout
}

// scheduled is the tick of the last run of a task.
func (s *shop) scheduled(t *testing.T, key string) time.Time {
	t.Helper()
	body, err := s.Live()[0].Client.Read(t.Context(), "/api/v1/tasks/"+key+"/runs")
	if err != nil {
		t.Fatal(err)
	}
	var runs struct {
		Items []struct{ ScheduledAt time.Time }
	}
	if err := json.Unmarshal([]byte(body), &runs); err != nil || len(runs.Items) == 0 {
		t.Fatalf("runs of %s: %s %v", key, body, err)
	}
	return runs.Items[0].ScheduledAt
}

// broken has the reports tick, and waits until they have failed and the other tasks have come to where they stay.
func (s *shop) broken(t *testing.T) {
	t.Helper()
	s.command(t, "trigger", nightlyReport, nightlyExport)
	want := map[string]string{
		"reports/nightly-report": "waiting", "reports/nightly-export": "waiting", "mail/sync-customers": "backoff",
		"models/train": "unassigned", "jobs/import-2026": "done", "jobs/migrate": "failed",
		"orders/shard-01": "running",
	}
	eventually(t, func(ctx context.Context) error {
		for _, r := range s.Live() {
			tasks, err := r.Client.Tasks(ctx)
			if err != nil {
				return err
			}
			for _, task := range tasks {
				if state := want[task.Key]; state != "" && state != task.State {
					return fmt.Errorf("%s is %s", task.Key, task.State)
				}
				if strings.HasPrefix(task.Key, "reports/") && task.LastError == "" {
					return fmt.Errorf("%s has not failed", task.Key)
				}
				if task.Key == "mail/sync-customers" && task.Restarts < 4 {
					return fmt.Errorf("%s: %d restarts", task.Key, task.Restarts)
				}
			}
		}
		return nil
	})
}

// lock takes a lock by the command, or waits for it, until the test ends.
func (s *shop) lock(t *testing.T, key string) {
	t.Helper()
	cmd := exec.Command(bins.Shardctl, "lock", "--store", s.StoreURI, "--cluster", "shop", key, "--", "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
}

// repair makes the next reports succeed.
func (s *shop) repair(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.dir, "broken")); err != nil {
		t.Fatal(err)
	}
}
