package cache

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
)

func TestMembersStayWhereTheirDocumentIsMalformed(t *testing.T) {
	var m members
	if m.LongestLease() != math.MaxInt64 {
		t.Error("a lease is known before the members were read")
	}
	m.replaceMembers(map[string]record.Member{"A": {LeaseMS: 2000}, "B": {LeaseMS: 9000}}, nil)
	m.replaceMembers(nil, []string{"A"}) // not read
	m.replaceMembers(map[string]record.Member{"C": {LeaseMS: 1000}}, []string{"B", "unknown"})
	if got := slices.Sorted(m.Members()); !slices.Equal(got, []string{"B", "C"}) {
		t.Errorf("members %q", got)
	}
	if b, ok := m.Member("B"); !ok || b.LeaseMS != 9000 || m.LongestLease() != 9*time.Second {
		t.Errorf("B: %+v, the longest lease %v", b, m.LongestLease())
	}
	m.ForgetMembers("B", "unknown")
	if _, ok := m.Member("B"); ok || m.LongestLease() != time.Second {
		t.Errorf("B is there, or the longest lease is %v", m.LongestLease())
	}
	m.ForgetMembers("C")
	if m.LongestLease() != 0 {
		t.Errorf("the longest lease of none is %v", m.LongestLease())
	}
}
