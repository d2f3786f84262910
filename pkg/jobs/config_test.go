package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Jobs are ended by the lease of the elector that holds them, and by no other.
func TestLeaseIsThatOfTheElector(t *testing.T) {
	db := memory.New()
	elector, err := elect.New(elect.Config{
		Store: db, Member: elect.Member{Instance: "a"},
		LeaseDuration: 6 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Store: db, Elector: elector, Instance: "a"})
	if err != nil || m.cfg.Lease != 6*time.Second {
		t.Errorf("lease %v, %v", m.cfg.Lease, err)
	}
	_, err = New(Config{Store: db, Elector: elector, Instance: "a", Lease: 7 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "lease: 7s: must be that of the elector, 6s, or left out") {
		t.Errorf("another lease: %v", err)
	}
	if m, err = New(Config{Store: db, Instance: "a"}); err != nil || m.cfg.Lease != 20*time.Second {
		t.Errorf("without an elector: %v, %v", m.cfg.Lease, err)
	}
}
