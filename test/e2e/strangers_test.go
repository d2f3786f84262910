//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/viewtest"
)

const (
	strangersFor    = 5 * time.Minute
	strangersKeys   = 20   // of applications
	strangersFound  = 4    // tasks that a lister finds
	idleConnections = 2000 // to one listener, all the time
)

// What strangers may do without a token, and what somebody does who edits the database, ends no session and crashes
// nothing. Sessions and locks of living replicas are edited in what hangs on no revision: that edits of the rest end
// them is decided by "Documents edited manually".
var _ = Describe("Strangers and a careless hand", Label("sqlite", "faults-documents", Nightly), Serial, func() {
	It("crash nothing, end no lease and hold up no operator", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(seeds.Of(GinkgoTB(), 0), 3))
		o, replicas := strangersCluster(ctx)
		db := newSQLiteHand(o.header["store"].(map[string]any)["uri"].(string))
		before := strangersState(ctx, replicas)

		busy, stop := context.WithTimeout(ctx, strangersFor)
		defer stop()
		var all sync.WaitGroup
		var asked atomic.Int64
		visit := func(visitor func(context.Context, *rand.Rand)) {
			seeded := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
			all.Go(func() {
				defer GinkgoRecover()
				visitor(busy, seeded)
			})
		}
		for _, replica := range replicas {
			for _, to := range []string{replica.Client.Server, replica.Client.Admin, "unix:" + o.socket(replica.Name)} {
				visit(func(ctx context.Context, r *rand.Rand) { askAnything(ctx, r, to, &asked) })
				visit(func(ctx context.Context, r *rand.Rand) { sendAnything(ctx, r, to) })
			}
		}
		visit(func(ctx context.Context, _ *rand.Rand) { stayIdle(ctx, replicas[0].Client.Server) })
		edits := 0
		visit(func(ctx context.Context, r *rand.Rand) { edits = editAnything(ctx, r, db) })
		commands := operateBeside(busy, replicas)
		all.Wait()

		Expect(ctx.Err()).NotTo(HaveOccurred())
		Expect(strangersState(ctx, replicas)).To(Equal(before), "sessions and workers")
		var panics []string
		for _, replica := range replicas {
			for line := range strings.Lines(replica.Log()) {
				if strings.Contains(line, "panic") || strings.HasPrefix(line, "goroutine ") {
					panics = append(panics, replica.Name+": "+line)
				}
			}
		}
		ExpectSafe(panics, "panics")
		db.clear(ctx, "override")
		Eventually(o.owners).Should(HaveLen(strangersKeys + strangersFound))
		Figure("sqlite", "strangers: %d requests, %d edits and %d commands in %v", asked.Load(), edits, commands,
			strangersFor)
	}, SpecTimeout(strangersFor+ScenarioTimeout))
})

// strangersCluster is three replicas with an application each, tokens for operators, and a group whose tasks a lister
// finds and whose weights follow what they use.
func strangersCluster(ctx context.Context) (*applications, []*harness.Replica) {
	GinkgoHelper()
	a := newApplications("strangers", strangersKeys)
	a.header["cluster"] = edited
	const token = "the-token-of-an-operator"
	GinkgoT().Setenv("SHARDCTL_ADMIN_TOKEN", token)
	for file, text := range map[string]string{
		"tokens": "ann " + token + "\n", "names": "n1\nn2\nn3\nn4\n",
	} {
		Expect(os.WriteFile(filepath.Join(a.dir, file), []byte(text), 0o600)).To(Succeed())
	}
	a.body = strings.TrimSuffix(a.body, "]\n") + fmt.Sprintf(`, {
  name: found, weightFrom: cpu, discover: {file: {path: "%s/names"}, interval: 5s},
  template: {exec: {command: ["%s"]}}}]
`, a.dir, Bins.Recorder)
	var replicas []*harness.Replica
	for _, instance := range []string{"a", "b", "c"} {
		r, err := a.StartWith(ctx, instance, func(server, admin string) (string, error) {
			return a.text(instance, server, admin, object{
				"admin": object{"listen": admin, "tokensFile": filepath.Join(a.dir, "tokens")},
				"app":   object{"listen": "unix:" + a.socket(instance), "command": python()},
			}), nil
		})
		Expect(err).NotTo(HaveOccurred())
		replicas = append(replicas, r)
	}
	Eventually(a.owners).Should(HaveLen(strangersKeys + strangersFound))
	return a, replicas
}

// strangersState is what must stay: each replica's session and worker.
func strangersState(ctx context.Context, replicas []*harness.Replica) map[string]string {
	GinkgoHelper()
	state := map[string]string{}
	for _, r := range replicas {
		worker, err := r.WorkerProc()
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			all, err := r.Client.Instances(ctx)
			for _, i := range all {
				if i.Name == r.Name && i.State == "live" {
					state[r.Name] = fmt.Sprintf("session %s, worker %d", i.Session, worker.PID)
					return nil
				}
			}
			return fmt.Errorf("%s does not know itself live: %w", r.Name, err)
		}).Should(Succeed())
	}
	return state
}

// dial connects to a listener: HOST:PORT or unix:PATH.
func dial(ctx context.Context, to string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(to, "unix:"); ok {
		network, to = "unix", path
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

// anyRequest is one that may be a route's, or nearly.
func anyRequest(ctx context.Context, r *rand.Rand) *http.Request {
	paths := []string{
		"/", "/metrics", "/livez", "/api/v1/status", "/api/v1/tasks", "/api/v1/events", "/api/v1/instances/a",
		"/api/v1/groups/found", "/api/v1/tasks/topics/topic-001/logs", "/api/v1/tasks/found/n1/runs", "/api/v1/watch",
		"/route/topics/topic-001/x", "/v1/sync", "/v1/value/topics/topic-001", "/v1/owner/topics/topic-002",
		"/v1/status",
	}
	for _, route := range verbs.Routes() {
		paths = append(paths, strings.NewReplacer("{group}", "topics", "{name}", "topic-003").Replace(route.Path))
	}
	pieces := []string{
		"%00", "..", "//", "%ff", strings.Repeat("a", 3000), "?q=\x7f", "?limit=-1&continue=e30", "?x", "#",
	}
	path := paths[r.IntN(len(paths))]
	if r.IntN(3) == 0 {
		at := r.IntN(len(path) + 1)
		path = path[:at] + pieces[r.IntN(len(pieces))] + path[at:]
	}
	bodies := []string{
		"", "{}", `{"tasks":["topics/topic-001"],"reason":"r"}`, `{"id":"u","keys":{"topics/topic-001":{"token":1}}}`,
	}
	body := viewtest.ScribbleBody(r, []byte(bodies[r.IntN(len(bodies))]))
	methods := []string{"GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "TRACE", "BREW"}
	req, err := http.NewRequestWithContext(ctx, methods[r.IntN(len(methods))], "http://localhost"+path,
		bytes.NewReader(body))
	if err != nil { // not a URL
		return anyRequest(ctx, r)
	}
	for _, name := range []string{"Authorization", "Accept", "Range", "Cookie", "X-Forwarded-For", "Expect", "Upgrade"} {
		if r.IntN(6) == 0 {
			req.Header.Set(name, []string{"", "Bearer x", "100-continue", "bytes=1-", strings.Repeat("y", 9000)}[r.IntN(5)])
		}
	}
	return req
}

// askAnything sends requests to a listener until ctx ends.
func askAnything(ctx context.Context, r *rand.Rand, to string, asked *atomic.Int64) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, to) },
	}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		resp, err := client.Do(anyRequest(ctx, r))
		if err == nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 1<<20)
			_ = resp.Body.Close()
			asked.Add(1)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// sendAnything sends what is hardly HTTP until ctx ends.
func sendAnything(ctx context.Context, r *rand.Rand, to string) {
	const call = "POST /v1/sync HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\nTransfer-Encoding: chunked\r\n\r\nff"
	for ctx.Err() == nil {
		if conn, err := dial(ctx, to); err == nil {
			text := []byte(call)
			for range r.IntN(10) {
				text[r.IntN(len(text))] = byte(r.IntN(256))
			}
			_, _ = conn.Write(text[:r.IntN(len(text))])
			pause(ctx, 50*time.Millisecond)
			_ = conn.Close()
		}
	}
}

// stayIdle keeps connections open that ask for nothing, until ctx ends.
func stayIdle(ctx context.Context, to string) {
	conns := make([]net.Conn, idleConnections)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	for ctx.Err() == nil {
		for i, conn := range conns {
			if conn != nil {
				_ = conn.SetReadDeadline(time.Now().Add(time.Microsecond))
				if _, err := conn.Read(make([]byte, 1)); os.IsTimeout(err) {
					continue
				}
				_ = conn.Close()
			}
			conns[i] = nil
			if conn, err := dial(ctx, to); err == nil {
				conns[i] = conn
			}
		}
		pause(ctx, time.Second)
	}
}

// editAnything edits a document every few milliseconds until ctx ends, and returns how many it has edited.
func editAnything(ctx context.Context, r *rand.Rand, db hand) (edits int) {
	last := context.WithoutCancel(ctx) // an edit is made whole
	for ; ctx.Err() == nil; edits++ {
		pause(ctx, 30*time.Millisecond)
		kind := editedKinds[r.IntN(len(editedKinds))]
		ids := db.ids(last, kind)
		if len(ids) == 0 {
			continue
		}
		id := ids[r.IntN(len(ids))]
		doc := db.read(last, kind, id)
		if doc == nil {
			continue // it has gone
		}
		body := viewtest.ScribbleBody(r, fmt.Append(nil, doc["body"]))
		if r.IntN(4) == 0 { // a document of nobody's
			db.insert(last, kind, object{
				"_id": fmt.Sprintf("topics/odd-%d", r.IntN(5)), "rev": int64(1 + r.IntN(9)), "session": "absent",
				"group": "topics", "state": []string{"", "live", "pin", "pause", "~"}[r.IntN(5)],
				"count": int64(r.IntN(3) - 1), "body": string(body),
			})
			continue
		}
		db.edit(last, kind, id, object{"body": string(body)})
		if kind != "session" && kind != "lock" && r.IntN(2) == 0 {
			db.raise(last, kind, id, 1)
		}
	}
	return edits
}

// operateBeside has an operator ask and change until ctx ends, and says how many commands were answered.
func operateBeside(ctx context.Context, replicas []*harness.Replica) (commands int) {
	GinkgoHelper()
	for i := 0; ctx.Err() == nil; i++ {
		r := replicas[i%len(replicas)]
		for _, args := range [][]string{
			{"status"},
			{"get", "tasks"},
			{"get", "events"},
			{"pause", "found/n1"},
			{"describe", "instance", r.Name},
			{"resume", "found/n1"},
		} {
			done(context.WithoutCancel(ctx), r, args...)
			commands++
		}
	}
	return commands
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
