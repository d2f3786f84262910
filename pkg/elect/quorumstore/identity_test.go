package quorumstore_test

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/elect/memstore"
	"github.com/shardctl/shardctl/pkg/elect/quorumstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// A process that is slow in setting a server up takes nothing back that another one has made or confirmed.
func TestIdentityIsGivenOnce(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	want := func(incarnation string, confirmed bool) {
		t.Helper()
		got, is, err := quorumstore.ReadIdentity(t.Context(), s)
		if err != nil || got != incarnation || is != confirmed {
			t.Fatalf("incarnation %q, confirmed %t, %v; want %q, %t", got, is, err, incarnation, confirmed)
		}
	}
	create := func(incarnation string) {
		t.Helper()
		if err := quorumstore.CreateIdentity(t.Context(), s, incarnation); err != nil {
			t.Fatal(err)
		}
	}
	want("", false)
	create("first")
	want("first", false)
	create("second")
	want("first", false)
	if err := quorumstore.ConfirmIdentity(t.Context(), s, "second"); err == nil {
		t.Error("another incarnation is confirmed")
	}
	want("first", false)
	if err := quorumstore.ConfirmIdentity(t.Context(), s, "first"); err != nil {
		t.Fatal(err)
	}
	create("second")
	want("first", true)
}

// A set-up that was cut off is completed under the incarnation that it began with.
func TestIdentityThatIsNotWhole(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	calls := 0
	s.Fault(func(memstore.Call) memstore.Verdict {
		if calls++; calls > 3 {
			return memstore.Verdict{Fault: memstore.LoseRequest}
		}
		return memstore.Verdict{}
	})
	if err := quorumstore.CreateIdentity(t.Context(), s, "first"); err == nil {
		t.Fatal("the set-up was not cut off")
	}
	s.Fault(nil)
	if err := quorumstore.ConfirmIdentity(t.Context(), s, "first"); err == nil {
		t.Error("what is not whole is confirmed")
	}
	if err := quorumstore.CreateIdentity(t.Context(), s, "second"); err != nil {
		t.Fatal(err)
	}
	if got, _, err := quorumstore.ReadIdentity(t.Context(), s); err != nil || got != "first" {
		t.Fatalf("incarnation %q, %v, want first", got, err)
	}
	reply, err := s.List(t.Context(), store.KindLock, store.Query{})
	if err != nil || len(reply.Docs) != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
}
