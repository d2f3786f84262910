package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// owning is the sample with so many tasks on b.
func owning(n int) *snapshot.Cluster {
	s := sample()
	s.Instance("b").Owned = api.Counts{"topics": n}
	return s
}

func TestDrainWaitsUntilEmpty(t *testing.T) {
	b := board(owning(2))
	read := status.New(status.Config{Source: b})
	looks := 0
	left := []int{2, 1, 0}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte("{}"))
			return
		}
		if looks++; looks == 2 {
			http.Error(w, "not now", http.StatusServiceUnavailable) // an unreachable replica is waited for as well
			return
		}
		b.Publish(owning(left[0]))
		left = left[min(1, len(left)-1):]
		read.ServeHTTP(w, r)
	}))
	defer server.Close()
	got := shardctl(t, globals(), "drain", "b", "--timeout", "1m", "--server", server.URL)
	if want := "instance b draining\ninstance b owns nothing\n"; got.code != 0 || got.out != want || got.err != "" ||
		looks != 4 {
		t.Errorf("after %d looks: %+v, want %q", looks, got, want)
	}
}

func TestDrainEndsWhenItsTimeIsOver(t *testing.T) {
	server := operated(t, board(owning(3)), &obeying{}, nil)
	got := shardctl(t, globals(), "drain", "b", "--timeout", "1ms", "--server", server)
	if got.code != CodeNo || got.out != "instance b draining\n" ||
		!strings.Contains(got.err, "b still owns 3 of 3 tasks") || !strings.Contains(got.err, "shardctl undrain b") {
		t.Errorf("%+v", got)
	}
}

// drainedOffline is a drain of b straight on a store. It shows so many tasks of b, one look after the other; fewer than
// 0 is a store that does not answer.
func drainedOffline(t *testing.T, silent []string, left ...int) outcome {
	t.Helper()
	g := globals()
	g.Change = func(
		context.Context, []string, operate.Request, func(*snapshot.Cluster) ([]string, error), bool,
	) (api.ChangeResult, error) {
		return api.ChangeResult{Changed: []string{"b"}}, nil
	}
	g.Offline = func(context.Context, []string) (*snapshot.Cluster, error) {
		n := left[0]
		left = left[min(1, len(left)-1):]
		if n < 0 {
			return nil, errors.New("no primary")
		}
		s := owning(n)
		for _, name := range silent {
			s.Status.Problems = append(
				s.Status.Problems, api.Problem{Reason: api.ProblemInstanceSilent, Instance: name},
			)
		}
		return s, nil
	}
	return shardctl(t, g, "drain", "b", "--timeout", "10s", "--config", "a.yaml")
}

// Straight on a store a drain waits as it does with a replica: for as long as some replica may take tasks over.
func TestDrainOnTheStore(t *testing.T) {
	all := []string{"a", "b", "c", "d"}
	for name, test := range map[string]struct {
		silent   []string
		left     []int
		out, err string
	}{
		"waits until it owns nothing": {nil, []int{2, -1, 1, 0}, "instance b draining\ninstance b owns nothing\n", ""},
		"one that is silent, beside others": {
			[]string{"b"}, []int{2, 2, 0}, "instance b draining\ninstance b owns nothing\n", "",
		},
		"no replica is up": {
			all, []int{2}, "instance b draining\n", "error: no replica is up to take over the 2 tasks of b: those " +
				"that " +
				"start obey, it stays drained until `shardctl undrain b`\n",
		},
		"no replica is up, and it owns nothing": {all, []int{0}, "instance b draining\ninstance b owns nothing\n", ""},
		"its time is over": {
			nil,
			[]int{2, 1},
			"instance b draining\n",
			"error: after 10s: b still owns 1 of 2 tasks; it stays drained until `shardctl undrain b`\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := drainedOffline(t, test.silent, test.left...)
				code := 0
				if test.err != "" {
					code = CodeNo
				}
				if got.code != code || got.out != test.out || got.err != test.err {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}
