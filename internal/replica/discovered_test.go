package replica

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// discovering are settings with a group that has discover, and the fields given in its template.
func discovering(t *testing.T, template string) *config.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	text := "store: {uri: \"sqlite:a.db\"}\nrevision: 3\ngroups:\n  - name: g\n    discover: {file: {path: a}, limit: 5}\n" +
		"    template: {exec: {command: [a]}" + template + "}\n    tasks: [{name: own, exec: {command: [a]}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load([]string{path}, config.Options{
		Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func listed(revision int64, names ...string) discovery.Published {
	p := discovery.Published{Revision: revision, AsOf: 100 * revision}
	for _, name := range names {
		p.Entries = append(p.Entries, discovery.Entry{Found: discover.Found{Name: name}})
	}
	return p
}

func namesOf(s *config.Settings) string {
	var names []string
	for _, t := range taskList(s) {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func TestListsTakeWhatIsDiscovered(t *testing.T) {
	s := discovering(t, "")
	l := newLists(s)
	declaredAgain := func() bool {
		select {
		case <-l.changed:
			return true
		default:
			return false
		}
	}
	if got := namesOf(l.get()); got != "own" {
		t.Errorf("before any list: %s", got)
	}
	l.discovered("g", listed(1, "a", "b"), "")
	if got := namesOf(l.get()); got != "own a b" || !declaredAgain() {
		t.Errorf("with a list: %s", got)
	}
	before := l.get()
	again := listed(1, "a", "b")
	_, from := l.all()
	found := from.found
	again.Entries = found["g"].published.Entries // as a reader returns what it knows
	again.Status.Found, again.AsOf = 2, 700
	l.discovered("g", again, "")
	if l.get() != before || declaredAgain() {
		t.Error("the same list was declared again")
	}
	d := declared(l.all())
	if k := d.Groups[0].Keys; len(k) != 3 || k[0].Discovered || !k[1].Discovered || d.Groups[0].AsOf() != 700 ||
		len(d.Names()) != 2 || d.Names()[1] != record.GroupDiscovery {
		t.Errorf("declared %+v, tracking %v", d.Groups[0], d.Names())
	}

	// Another configuration makes the tasks again, of the same list.
	l.set(discovering(t, ", weight: 7"))
	if tasks := taskList(l.get()); len(tasks) != 3 || tasks[1].Weight != 7 || !declaredAgain() {
		t.Errorf("by another template: %+v", tasks)
	}
	// A reading that fails takes nothing away.
	l.discovered("g", listed(1, "a", "b"), "a chunk is missing")
	if got := namesOf(l.get()); got != "own a b" {
		t.Errorf("after a failure: %s", got)
	}
	l.discovered("g", listed(2, "b"), "")
	if got := namesOf(l.get()); got != "own b" {
		t.Errorf("with the next list: %s", got)
	}
}

func TestWhatHasNoTaskIsTold(t *testing.T) {
	s := discovering(t, ", labels: {of: $(DISCOVERED_NAME)}")
	p := listed(4, "a", "b c", "own")
	p.Status = discovery.Status{
		Lister: "file", By: "r2", At: 1000, Found: 7, LeftOut: 4, Error: "file: a: no such file", Since: 2000,
	}
	found := discovered(nil).with("g", p, "")
	s, found = found.apply(s)
	if got := namesOf(s); got != "own a" {
		t.Errorf("tasks %s", got)
	}
	m := gather(s, nil, nil)
	m.read.found = found
	said := map[string]string{}
	for _, f := range m.read.found.find(m.settings.Groups) {
		if f.Group != "g" || f.Severity != api.SeverityWarning {
			t.Errorf("%+v", f)
		}
		said[f.Reason] = f.Message
	}
	if got := said[api.ProblemDiscoveryFailed]; got !=
		"r2 cannot tell what exists: file: a: no such file; nothing is removed meanwhile" {
		t.Errorf("failed: %s", got)
	}
	for _, part := range []string{
		"6 that were found have no task: 7 were found, and discover.limit is 5; no task can be made for \"b c\"",
		`the group has "own" in its own list`,
	} {
		if !strings.Contains(said[api.ProblemDiscoveryIncomplete], part) {
			t.Errorf("incomplete: %s", said[api.ProblemDiscoveryIncomplete])
		}
	}
	shown := found.shown(&s.Groups[0])
	if shown.Lister != "file" || shown.Found != 7 || shown.LeftOut != 6 || shown.By != "r2" || shown.Revision != 4 ||
		shown.FailingSince.UnixMilli() != 2000 {
		t.Errorf("shown %+v", shown)
	}
	if plain := (discovered{}).shown(&config.Group{Name: "x"}); plain != nil {
		t.Errorf("a group without discover shows %+v", plain)
	}
	if m.read.found = discovered(nil).with("g", listed(1),
		"a chunk is missing"); len(m.read.found.find(m.settings.Groups)) != 1 {
		t.Errorf("%+v", m.read.found.find(m.settings.Groups))
	}
}

func TestWhoMayLook(t *testing.T) {
	s := discovering(t, "") // revision 3
	session := func(id string, state record.SessionState, revision int64) cluster.Session {
		return cluster.Session{
			ID: id, State: state, Known: true,
			Member: elect.Member{Instance: id, ListRevision: revision},
		}
	}
	held := func(by string) map[elect.Key]*record.Lock {
		return map[elect.Key]*record.Lock{discovery.Key("g"): {Key: discovery.Key("g"), Session: by}}
	}
	both := []cluster.Session{session("me", record.Live, 3), session("you", record.Live, 3)}
	for what, c := range map[string]struct {
		view cluster.View
		want bool
	}{
		"nobody looks":           {cluster.View{Loaded: true, Open: true, Sessions: both}, true},
		"nothing is known yet":   {cluster.View{Open: true, Sessions: both}, false},
		"the lease is not valid": {cluster.View{Loaded: true, Sessions: both}, false},
		"it drains":              {cluster.View{Loaded: true, Open: true, Draining: true, Sessions: both}, false},
		"another looks":          {cluster.View{Loaded: true, Open: true, Sessions: both, Locks: held("you")}, false},
		"it looks itself":        {cluster.View{Loaded: true, Open: true, Sessions: both, Locks: held("me")}, false},
		"who looked is gone":     {cluster.View{Loaded: true, Open: true, Sessions: both, Locks: held("old")}, true},
		"who looked is dead": {cluster.View{
			Loaded: true, Open: true, Locks: held("you"),
			Sessions: []cluster.Session{session("me", record.Live, 3), session("you", record.Dead, 3)},
		}, true},
		"another has newer lists": {cluster.View{
			Loaded: true, Open: true,
			Sessions: []cluster.Session{session("me", record.Live, 3), session("you", record.Live, 4)},
		}, false},
		"a dead one had newer lists": {cluster.View{
			Loaded: true, Open: true,
			Sessions: []cluster.Session{session("me", record.Live, 3), session("you", record.Dead, 4)},
		}, true},
	} {
		if got := mayHold(&c.view, s, discovery.Key("g")); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
