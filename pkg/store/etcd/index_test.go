package etcd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// Whatever several clients did at once to few documents, the indexes hold what belongs to the documents, and nothing
// else.
func TestIndexesFollowEveryChange(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindEtcd).Database()
	clients := []driver.Store{storetest.Open(t, driver.Config{URI: uri}), storetest.Open(t, driver.Config{URI: uri})}
	var writing sync.WaitGroup
	for w := range 6 {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7)) // the same changes in each run
			for seq := range int64(60) {
				var changes []driver.Change
				for _, kind := range driver.Kinds() {
					changes = append(changes, randomChange(t, random, clients[w%2], kind, w, seq))
				}
				if _, err := clients[w%2].Apply(t.Context(), changes...); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	writing.Wait()
	var want []string
	for _, kind := range driver.Kinds() {
		reply, err := clients[0].List(t.Context(), kind, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range reply.Docs {
			want = append(want, etcd.Entries(clients[0], d)...)
		}
	}
	slices.Sort(want)
	found, err := raw(t, uri).Get(t.Context(), etcd.Index(clients[0]), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range found.Kvs {
		got = append(got, string(kv.Key))
	}
	if len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("the indexes hold %d entries:\n%q\nwant %d:\n%q", len(got), got, len(want), want)
	}
}

// randomChange is one of a document as it is now, or as it was a while ago.
func randomChange(
	t *testing.T, random *rand.Rand, s driver.Store, kind driver.Kind, writer int, seq int64,
) driver.Change {
	t.Helper()
	id := fmt.Sprintf("%c/%d", 'g'+random.IntN(2), random.IntN(3))
	reply, err := s.Read(t.Context(), kind, id)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	c := driver.Change{Doc: driver.Doc{
		Kind: kind, ID: id, Group: []string{"g", "h", ""}[random.IntN(3)],
		Session:   []string{"", "s", "t"}[random.IntN(3)],
		Suspended: random.IntN(2) == 0, State: "live", Expires: int64(random.IntN(3)) * 1000,
		WriterID: driver.WriterID{Session: fmt.Sprint(writer), Seq: seq},
	}}
	if len(reply.Docs) > 0 {
		c.IfRev = reply.Docs[0].Rev
	}
	c.Doc.Rev = c.IfRev + 1
	switch random.IntN(6) {
	case 0:
		if c.IfRev > 0 {
			c.Op = driver.Delete
		}
	case 1:
		if kind == driver.KindGroup {
			c.Op = driver.Increment
		}
	}
	return c
}

// What is edited or deleted with a tool leaves entries behind. Lists that meet them take them away, and no others.
func TestEntriesOfEditedDocumentsAreTakenAway(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindEtcd).Database()
	s, client := storetest.Open(t, driver.Config{URI: uri}), raw(t, uri)
	var changes []driver.Change
	for i := range 3 {
		c := create(fmt.Sprint("g/", i))
		c.Doc.Session = "owner"
		changes = append(changes, c)
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	key := func(i int) string { return prefixOf(uri) + "/default/lock/g/" + fmt.Sprint(i) }
	if _, err := client.Delete(t.Context(), key(0)); err != nil {
		t.Fatal(err)
	}
	found, err := client.Get(t.Context(), key(1))
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	edited := strings.Replace(string(found.Kvs[0].Value), "owner", "other", 1)
	if _, err := client.Put(t.Context(), key(1), edited); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, q := range []driver.Query{
			{Sessions: []string{"owner"}},
			{Group: "g", MinRev: 1},
			{Reverse: true, Limit: 5},
		} {
			if _, err := s.List(t.Context(), driver.KindLock, q); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := changes[1].Doc
	other.Session = "other"
	want := append(etcd.Entries(s, changes[2].Doc), etcd.Entries(s, other)...)
	want = slices.DeleteFunc(want, func(entry string) bool { return strings.Contains(entry, "other") }) // never made
	slices.Sort(want)
	left, err := client.Get(t.Context(), etcd.Index(s), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range left.Kvs {
		got = append(got, string(kv.Key))
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries left:\n%q\nwant\n%q", got, want)
	}
}

// However many documents an index names, no reply of etcd's holds more than a page of them.
func TestIndexesAreReadInPages(t *testing.T) {
	const all, page = 2500, 1000
	uri := testservers.Shared(t, testservers.KindEtcd).Database()
	var largest atomic.Int64
	s, err := etcd.OpenCounting(t.Context(), etcd.Options{URI: uri, Timeout: patient}, func(keys int) {
		for {
			n := largest.Load()
			if int64(keys) <= n || largest.CompareAndSwap(n, int64(keys)) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	changes := make([]driver.Change, all)
	for i := range changes {
		changes[i] = create(fmt.Sprintf("g/%04d", i))
		changes[i].Doc.Session = "few"
		if i%100 != 0 {
			changes[i].Doc.Session = "many"
		}
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]driver.Query{
		"one session":   {Sessions: []string{"many"}},
		"several":       {Sessions: []string{"few", "many", "none"}},
		"all others":    {Others: []string{"few"}},
		"those since":   {Group: "g", MinRev: 1},
		"from the last": {Sessions: []string{"many"}, Reverse: true, Limit: 30},
	} {
		largest.Store(0)
		var want []string
		for _, c := range changes {
			few := c.Doc.Session == "few"
			if few && len(q.Sessions) != 1 && len(q.Others) == 0 || !few {
				want = append(want, c.Doc.ID)
			}
		}
		if q.Reverse {
			slices.Reverse(want)
			want = want[:q.Limit]
		}
		reply, err := s.List(t.Context(), driver.KindLock, q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, d := range reply.Docs {
			got = append(got, d.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d documents, want %d", name, len(got), len(want))
		}
		if n := largest.Load(); n > page {
			t.Errorf("%s: a reply holds %d keys, want %d at most", name, n, page)
		}
	}
}
