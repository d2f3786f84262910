package view

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/test/viewtest"
)

func TestDiscoveredWithoutATaskIsAProblem(t *testing.T) {
	s := viewtest.Discovering(t, ", labels: {of: $(DISCOVERED_NAME)}")
	p := viewtest.Discovered(4, "a", "b c", "own")
	p.Status = discover.Status{
		Lister: "file", By: "r2", At: 1000, Found: 7, LeftOut: 4, Error: "file: a: no such file", Since: 2000,
	}
	l, _ := StoreLists{}.WithDiscovered("g", p, "")
	s, l = l.Apply(s)
	if tasks := s.Groups[0].Tasks; len(tasks) != 2 || tasks[0].Name != "own" || tasks[1].Name != "a" {
		t.Errorf("tasks %+v", tasks)
	}
	said := map[string]string{}
	for _, f := range l.findDiscovery(s.Groups) {
		p := f.Problem
		if p.Group != "g" || p.Severity != api.SeverityWarning {
			t.Errorf("%+v", f)
		}
		said[p.Reason] = p.Message
	}
	if got := said[api.ProblemDiscoveryFailed]; got !=
		"r2 cannot list what exists: file: a: no such file; nothing is removed meanwhile" {
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
	shown := l.showDiscovery(&s.Groups[0])
	if shown.Lister != "file" || shown.Found != 7 || shown.LeftOut != 6 || shown.By != "r2" || shown.Revision != 4 ||
		shown.FailingSince.UnixMilli() != 2000 {
		t.Errorf("shown %+v", shown)
	}
	if plain := (StoreLists{}).showDiscovery(&settings.Group{Name: "x"}); plain != nil {
		t.Errorf("a group without discover shows %+v", plain)
	}
	l, _ = StoreLists{}.WithDiscovered("g", viewtest.Discovered(1), "a chunk is missing")
	if found := l.findDiscovery(s.Groups); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}
