package balancer

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// TestClientsTakeNoPart holds that a session that declares no groups takes no part in the balance, as a process that
// only wants a lock. It differs from no list, gets no key and unsettles no membership. Its revision of the lists does
// not count.
func TestClientsTakeNoPart(t *testing.T) {
	member := func(id string, lists map[string]string) cluster.Session {
		return cluster.Session{
			ID: id, State: record.Live, Known: true, Member: elect.Member{Session: id, Instance: id, ListHashes: lists},
		}
	}
	now := time.UnixMilli(1_000_000)
	declared := Declared{
		Revision: 1, Groups: []DeclaredGroup{{Name: "g", Hash: "1", Keys: []DeclaredKey{{Key: "g/1"}, {Key: "g/2"}}}},
	}
	view := &cluster.View{
		Session: "a", Instance: "a", Open: true, Loaded: true, Outage: -1,
		Sessions: []cluster.Session{member("a", map[string]string{"g": "1"})},
		Locks:    map[elect.Key]*record.Lock{}, Held: map[elect.Key]cluster.Held{"g/gone": {}},
	}
	past := history{}.follow(view, declared, now)
	client := member("lock", nil)
	client.Member.ListRevision = 7
	joined := *view
	joined.Sessions = append(joined.Sessions, client)
	later := now.Add(time.Hour)
	after := past.follow(&joined, declared, later)
	if !after.since.Equal(now) {
		t.Errorf("the membership counts as changed at %v, when the client came", after.since)
	}
	d, report := newSituation(&joined, declared, Policy{}, after.calm(&joined, later)).decide(Wave{}, later)
	if len(report.Differs) != 0 {
		t.Errorf("lists differ: %v", report.Differs)
	}
	if len(d.Claim) != 2 {
		t.Errorf("claims %v, want both keys", d.Claim)
	}
	if len(d.Release) != 1 || d.Release[0].Key != "g/gone" {
		t.Errorf("releases %v, want the key that is declared no longer", d.Release)
	}

	// Without hashes nothing says who declares what: all take part.
	declared.Groups[0].Hash = ""
	if in := newSituation(&joined, declared, Policy{}, after.calm(&joined, later)).inputOf(); len(in.Members) != 2 {
		t.Errorf("members %v", in.Members)
	}
}
