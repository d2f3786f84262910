package cli

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// fakeMutexes are the locks of programs in a store.
type fakeMutexes []api.Lock

func (f fakeMutexes) Mutexes(context.Context) ([]api.Lock, error) { return slices.Clone(f), nil }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func heldBy(instance string, token int64) api.LockHolder {
	return api.LockHolder{
		Instance: instance, Session: "s-" + instance, FencingToken: token, HeldSince: ago(seconds(token)),
	}
}

// programs are locks of each kind.
var programs = fakeMutexes{
	{
		Key: "reports/monthly", Name: "reports/monthly", Kind: api.LockMutex, Limit: 1, Waiting: 5,
		Owner:   api.Owner{Instance: "web-1", Session: "s-web-1", FencingToken: 40, OwnedSince: ago(seconds(40))},
		Holders: api.LockHolders{heldBy("web-1", 40)}, Next: "s-web-2",
		Queue: api.LockQueue{{Instance: "web-2"}, {Instance: "web-3"}, {}, {Instance: "web-4"}, {Instance: "web-2"}},
	},
	{
		Key: "crawler", Name: "crawler", Kind: api.LockSemaphore, Limit: 5, Owner: api.Owner{FencingToken: 12},
		Holders: api.LockHolders{heldBy("web-1", 9), heldBy("web-2", 12), heldBy("", 3), heldBy("web-3", 11)},
	},
	{
		Key: "index", Name: "index", Kind: api.LockRW, Waiting: 1, Owner: api.Owner{FencingToken: 12},
		Holders: api.LockHolders{{Instance: "web-1", Shared: true}, {Instance: "web-2", Shared: true}},
		Queue:   api.LockQueue{{Instance: "web-3", Session: "s-web-3"}},
	},
	{
		Key: "migrate", Name: "migrate", Kind: api.LockMutex, Limit: 1, Owner: api.Owner{FencingToken: 7},
		KeptUntil: ago(-seconds(90)),
	},
	{
		Key: "topics/topic-005", Name: "topics/topic-005", Kind: api.LockRW, Reason: "Orphaned",
		Owner:   api.Owner{Instance: "c", Session: "s-c", FencingToken: 4, OwnedSince: ago(seconds(4))},
		Holders: api.LockHolders{heldBy("c", 4)}, Message: "c died: no heartbeat for 20 s. Who asks next can have it",
	},
}

func TestLocksOfPrograms(t *testing.T) {
	h := status.New(status.Config{Source: board(sample()), Mutexes: programs})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for file, line := range map[string]string{
		"locks-all.txt":      "get locks",
		"locks-all-wide.txt": "get locks -o wide",
		"lock-mutex.json":    "get locks reports/monthly -o json",
		"lock-task.yaml":     "get locks locks/backup -o yaml",
		"locks-kind.txt":     "get locks --kind semaphore,rwlock -o name",
		"locks-pattern.txt":  "get locks reports/* mig* topic-* -o name",
		"locks-group.txt":    "get locks -g topics topic-005 -o name",
	} {
		t.Run(file, func(t *testing.T) {
			got := shardctl(t, globals(), append(strings.Fields(line), "--server", server.URL)...)
			if got.code != 0 || got.err != "" {
				t.Fatalf("code %d: %s", got.code, got.err)
			}
			golden(t, file, got.out)
		})
	}
	for line, says := range map[string]string{
		"get locks --kind mutx":    "is not one of task, chore, mutex, rwlock, semaphore",
		"get tasks --kind mutex":   "--kind is of locks",
		"get locks report/monthly": "did you mean reports/monthly?",
	} {
		got := shardctl(t, globals(), append([]string{"--server", server.URL}, strings.Fields(line)...)...)
		if got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("%s: code %d, %s", line, got.code, got.err)
		}
	}
}

// A watched lock that nobody holds any more is not shown as held.
func TestFreedLockIsFree(t *testing.T) {
	for _, kind := range api.LockKinds() {
		l := programs[0]
		l.Kind = kind
		locks().gone(&l)
		if want := !kind.OfProgram(); (len(l.Holders) > 0) != want || (l.Instance != "") != want ||
			l.FencingToken != 40 {
			t.Errorf("%s: %+v", kind, l)
		}
	}
}
