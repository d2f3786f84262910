package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/viewtest"
)

const followed = `
store: {uri: "sqlite:a.db"}
groups:
  - name: g
    weightFrom: cpu
    discover: {file: {path: a}, limit: 50}
    template: {exec: {command: [echo, $(DISCOVERED_NAME)]}}
    tasks: [{name: t, exec: {command: [date]}}]
`

// cluster is a store with at least one document of each kind.
func clusterOfAllKinds(t *testing.T, s *settings.Settings) (store.Store, func() []driver.Doc) {
	t.Helper()
	now := time.UnixMilli(1_000_000)
	db := memory.New(memory.WithClock(func() time.Time { return now }))
	id := driver.WriterID{Session: "S", Seq: 1}
	request, err := idempotency.Record{ID: "q", State: idempotency.Started, Claim: "c", Attempt: 1}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	lock := viewtest.Lock("g/t", "S", "running")
	lock.WriterID, lock.Status.Outcome = id, &record.RunOutcome{ExitCode: 1}
	runs := record.Runs{Key: "g/t"}
	runs.Add(record.Run{Tick: 5, Start: 5, Result: record.RunFailed, Output: "oh"})
	viewtest.Put(t, db,
		record.Session{
			ID: "S", Rev: 2, WriterID: id, State: record.Live, Lease: 4 * time.Second, Instance: "a", Clock: now.UnixMilli(),
			Remote: map[record.Key]int64{"g/t": 50},
		}.Doc(),
		record.Member{
			Session: "S", Instance: "a", Caps: map[string]int{"g": 2}, Labels: map[string]string{"a": "b"}, LeaseMS: 4000,
			ListHashes: map[string]string{"g": s.Groups[0].Hash}, Application: &record.Application{ID: "u", PID: 7},
			Problems: []record.Problem{{Reason: "StopStuck", Severity: "error", Message: "m"}},
		}.Doc(id),
		lock.Doc(),
		record.Override{Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/t", To: "a", At: 5}.Doc(id),
		record.Event{ID: "0000000000005-a", Time: 5, Type: "Moved", Key: "g/t", Token: 4}.Doc(id),
		runs.Doc(id),
		record.Move{ID: "m", State: record.MoveStays, Other: "sqlite:b.db"}.Doc(id, 5),
		record.MutexDoc(record.MutexID("m"), protocol.MutexDoc{
			Limit: 2, Holders: []protocol.MutexHolder{{Session: "S", Claim: "c", Token: 8, Slot: 1, Since: 3}},
			Queue: []protocol.MutexTicket{{Session: "S", Claim: "d"}}, Hold: protocol.MutexHold{UntilMs: 7, ForMs: 6, Token: 9},
		}, id, 7),
		driver.Doc{Kind: driver.KindGroup, ID: "g", WriterID: id, Count: 7},
		driver.Doc{Kind: driver.KindRequest, ID: "q", WriterID: id, Body: request, Expires: now.UnixMilli() + 1000},
	)
	list := published.NewWriter[discover.Entry, discover.Status](db,
		published.Place{Space: record.GroupDiscovery, Group: "g"}, 3)
	before, err := list.Read(t.Context())
	if err == nil {
		err = list.Publish(t.Context(), before, []discover.Entry{
			{Found: discover.Found{Name: "a", Weight: 2, Labels: map[string]string{"l": "v"}}},
			{Found: discover.Found{Name: "b"}, Gone: 7},
		}, discover.Status{Lister: "file", By: "a", At: 5, Found: 1})
	}
	heavy := published.NewWriter[weights.Entry, weights.Status](db,
		published.Place{Space: record.GroupWeights, Group: "g"}, 3)
	if err == nil {
		err = heavy.Publish(t.Context(), published.Before[weights.Entry, weights.Status]{},
			[]weights.Entry{{Name: "a", Level: 3, Since: 5, Wait: 7}}, weights.Status{By: "a", At: 5})
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, func() []driver.Doc {
		var all []driver.Doc
		for _, kind := range driver.Kinds() {
			found, err := db.List(t.Context(), kind, driver.Query{})
			if err != nil || len(found.Docs) == 0 {
				t.Fatalf("%d documents of kind %s, %v", len(found.Docs), kind, err)
			}
			all = append(all, found.Docs...)
		}
		return all
	}
}

// Each reader of a document takes whatever is in it, its columns too.
func TestReadersOfEditedDocuments(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t, 0), 1))
	_, all := clusterOfAllKinds(t, viewtest.Load(t, followed))
	docs := all()
	for range 20_000 {
		d := docs[r.IntN(len(docs))]
		for range 1 + r.IntN(3) {
			d = viewtest.Scribble(r, d)
		}
		for _, read := range []func(driver.Doc) error{
			func(d driver.Doc) error { _, err := record.SessionFrom(d); return err },
			func(d driver.Doc) error { _, err := record.MemberFrom(d); return err },
			func(d driver.Doc) error { _, err := record.LockFrom(d); return err },
			func(d driver.Doc) error { _, err := record.OverrideFrom(d); return err },
			func(d driver.Doc) error { _, err := record.EventFrom(d); return err },
			func(d driver.Doc) error { _, err := record.MutexFrom(d); return err },
			func(d driver.Doc) error { _, err := record.RunsFrom(d); return err },
			func(d driver.Doc) error { _, err := idempotency.DecodeRecord(d.Body); return err },
		} {
			if err := read(d); err != nil && strings.Contains(err.Error(), "panic") {
				t.Fatalf("%+v\n%s: %v", d, d.Body, err)
			}
		}
	}
}

// Whatever documents of a store are edited to, all that is shown of it is read, and so are its lists, of which the last
// one stays or what makes sense counts. A store takes only some of what a document may be edited to.
func TestAStoreThatIsEdited(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t, 0), 2))
	s := viewtest.Load(t, followed)
	for range 60 {
		db, all := clusterOfAllKinds(t, s)
		found, levels := discover.NewReader(db, "g"), weights.NewReader(db, "g")
		for range 12 {
			docs := all()
			d := docs[r.IntN(len(docs))]
			was := d.Rev
			d = viewtest.Scribble(r, d)
			d.Rev++
			d.WriterID.Seq++
			if _, err := db.Apply(t.Context(), driver.Change{IfRev: was, Doc: d}); err != nil {
				continue // the store takes no such document
			}
			if strings.HasPrefix(d.ID, record.GroupDiscovery) && r.IntN(2) == 0 {
				matchHashes(t, db, "~discovery/g")
			}
			read(t, db, s, found, levels)
		}
	}
}

// read reads all that is shown of a store. Nothing may panic, guarded or not.
func read(t *testing.T, db store.Store, s *settings.Settings, found *discover.Reader, levels *weights.Reader) {
	t.Helper()
	ctx := t.Context()
	o := NewOffline(s, db)
	_, errFound := found.Read(ctx)
	_, errLevels := levels.Read(ctx)
	_, errSnapshot := o.Snapshot(ctx, "1", time.Now())
	_, errEvents := o.Events(ctx, snapshot.EventQuery{Limit: 5})
	_, errRuns := o.Runs(ctx, "g/t")
	_, errMutexes := o.Mutexes(ctx)
	_, _, errMove := record.ReadMove(ctx, db)
	err := errors.Join(errFound, errLevels, errSnapshot, errEvents, errRuns, errMutexes, errMove)
	if err != nil && strings.Contains(err.Error(), "panic") {
		t.Fatal(err)
	}
	if err := errors.Join(errSnapshot, errEvents, errMutexes); err != nil {
		t.Errorf("what else is in the store is not shown: %v", err)
	}
	lists, l, err := ReadLists(context.WithoutCancel(ctx), s, db)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, key := range l.Declared(lists).Groups[0].Keys {
		if names[string(key.Key)] {
			t.Errorf("task %s is declared twice", key.Key)
		}
		names[string(key.Key)] = true
	}
	if !names["g/t"] {
		t.Errorf("the group's own task is missing: %v", names)
	}
}

// matchHashes has the head of a list say what its chunks are now, so that what is in them counts.
func matchHashes(t *testing.T, db store.Store, id string) {
	t.Helper()
	docs, err := db.Read(t.Context(), driver.KindValue, id, id+"/1-0")
	if err != nil || len(docs.Docs) != 2 {
		return
	}
	head, chunk := docs.Docs[0], docs.Docs[1]
	if head.ID != id {
		head, chunk = chunk, head
	}
	var body map[string]any
	var entries []any
	if json.Unmarshal(head.Body, &body) != nil || json.Unmarshal(chunk.Body, &entries) != nil || body == nil {
		return
	}
	hash := hashOf(chunk.Body)
	body["chunks"], body["hash"], body["count"] = []string{hash}, hashOf([]byte(hash)), len(entries)
	was := head.Rev
	head.Body, _ = json.Marshal(body)
	head.Rev++
	head.WriterID.Seq++
	if _, err := db.Apply(t.Context(), driver.Change{IfRev: was, Doc: head}); err != nil {
		t.Log(err)
	}
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}
