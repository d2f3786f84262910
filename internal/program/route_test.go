//go:build unix

package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/test/suites"
)

// TestRequestsForOwnersAreForwarded holds that a replica with server.route takes them at server.listen, with any method
// and under its own names alone. admin.listen takes none.
func TestRequestsForOwnersAreForwarded(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	listen, err := web.FreeAddresses(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	replica := program(t.Context(), t, "run", "--config", writeConfig(t, fmt.Sprintf(`
version: 1
store: {uri: "sqlite:%s"}
server: {listen: "%s", route: true}
admin: {listen: "%s"}
groups: [{name: g, tasks: [{name: a, exec: {command: [sleep, "1000"]}}]}]
`, filepath.Join(t.TempDir(), "a.db"), listen[0], listen[1])))
	replica.Stderr = os.Stderr
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = replica.Process.Signal(os.Interrupt)
		_ = replica.Wait()
	}()
	ask := func(address, host string) (code int, reason string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+"/route/g/a/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		var problem api.Error
		_ = json.NewDecoder(resp.Body).Decode(&problem) // what is no problem has no reason
		return resp.StatusCode, problem.Reason
	}
	var code int
	var reason string
	for end := time.Now().Add(programLimit); reason != api.ReasonNoAddress && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		code, reason = ask(listen[0], "")
	}
	if code != http.StatusServiceUnavailable || reason != api.ReasonNoAddress {
		t.Errorf("once the key has an owner: %d %s, want that it has no address", code, reason)
	}
	if code, reason := ask(listen[0], "evil.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %d %s", code, reason)
	}
	if code, reason := ask(listen[1], ""); code != http.StatusMethodNotAllowed && code != http.StatusNotFound {
		t.Errorf("admin.listen: %d %s", code, reason)
	}
}
