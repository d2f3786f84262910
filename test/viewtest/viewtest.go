// Package viewtest makes configurations, views of a cluster and documents for tests.
package viewtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // which configurations of tests name
)

// sample is the configuration of most tests.
const sample = `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
lease: {duration: 20s}
groups:
  - name: g
    cap: 2
    tasks: [{name: "t{1..6}", exec: {command: [date]}}]
  - name: free
    tasks: [{name: u, exec: {command: [date]}}]
`

// Settings are those of instance a, with group g of t1 to t6, capped at 2, and group free of u.
func Settings(t *testing.T) *settings.Settings {
	t.Helper()
	return Load(t, sample)
}

// Load reads a configuration.
func Load(t *testing.T, text string) *settings.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load([]string{path},
		config.Options{Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers()})
	if err != nil {
		t.Fatal(err)
	}
	return s.Settings
}

// Discovering are settings of revision 3 whose group g has discover with a limit of 5, and the task own. template is
// added to its template, such as ", weight: 7".
func Discovering(t *testing.T, template string) *settings.Settings {
	t.Helper()
	return Load(t, "store: {uri: \"sqlite:a.db\"}\nrevision: 3\ngroups:\n"+
		"  - name: g\n    discover: {file: {path: a}, limit: 5}\n"+
		"    template: {exec: {command: [a]}"+template+"}\n    tasks: [{name: own, exec: {command: [a]}}]\n")
}

// Discovered is a list as it is published, with tasks of these names.
func Discovered(revision int64, names ...string) discover.Published {
	p := discover.Published{Revision: revision, AsOf: 100 * revision}
	for _, name := range names {
		p.Entries = append(p.Entries, discover.Entry{Found: discover.Found{Name: name}})
	}
	return p
}

// Session is one of a view, with a cap of 2 in group g.
func Session(id, instance string, state record.SessionState) cluster.Session {
	return cluster.Session{
		ID: id, State: state, Known: true,
		Member: record.Member{
			Session: id, Instance: instance, Caps: map[string]int{"g": 2}, ListHashes: map[string]string{"g": "1"},
			Opened: 1000,
		},
	}
}

// Lock is one of revision 8 under token 7, owned by a session in this state of its task.
func Lock(key record.Key, owner, state string) *record.Lock {
	return &record.Lock{
		Key: key, Rev: 8, Token: 7, Session: owner, Instance: "i" + owner, Since: 2000, Reason: record.ReasonCreated,
		Status: record.TaskStatus{State: state, Since: 3000},
	}
}

// Cluster is a view of session A with these locks. A of instance a and B of b are live, C of c is dead.
func Cluster(locks ...*record.Lock) *cluster.View {
	v := &cluster.View{
		Session: "A", Instance: "a", Open: true, Loaded: true, Locks: map[record.Key]*record.Lock{},
		Held: map[record.Key]cluster.Held{},
		Sessions: []cluster.Session{
			Session("A", "a", record.Live), Session("B", "b", record.Live), Session("C", "c", record.Dead),
		},
	}
	for _, l := range locks {
		v.Locks[l.Key] = l
	}
	return v
}

// Override adds one of a task to a view.
func Override(kind record.OverrideKind, key record.Key, to string) func(*cluster.View) {
	return func(v *cluster.View) {
		v.Overrides = append(v.Overrides, record.Override{
			Kind: kind, Scope: record.ScopeTask, Name: string(key), To: to, By: "ann", Reason: "test", At: 4000,
		})
	}
}

// Overrides adds overrides to a view, each a second newer than the one before.
func Overrides(overrides ...record.Override) func(*cluster.View) {
	return func(v *cluster.View) {
		for i, o := range overrides {
			o.By, o.Reason, o.At = "ann", "test", int64(1000*(i+1))
			v.Overrides = append(v.Overrides, o)
		}
	}
}

// Put writes new documents to a store.
func Put(t *testing.T, db store.Store, docs ...driver.Doc) {
	t.Helper()
	for _, d := range docs {
		if d.Rev == 0 {
			d.Rev = 1
		}
		outs, err := db.Apply(t.Context(), driver.Change{Doc: d})
		if err != nil || outs[0].Status != driver.Applied {
			t.Fatalf("%+v, %v", outs, err)
		}
	}
}
