package view

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// foundGroup is what was discovered for one group, and the tasks made of it.
type foundGroup struct {
	published discover.Published
	asOf      *atomic.Int64 // as of when the list was read; shared with what was read before
	failed    string        // why the list could not be read; empty: it was
	from      *settings.Discover
	made      []tasks.Task
	refused   string // why some have no task; empty: all have
}

// entries are those of the list as they were found.
func (f foundGroup) entries() []discover.Found {
	all := make([]discover.Found, len(f.published.Entries))
	for i, e := range f.published.Entries {
		all[i] = e.Found
	}
	return all
}

// madeFor is f with the tasks of a group's list. Those that the group has by its own list are left out, and so are those
// whose name is there already: the list in the store may have been edited.
func (f foundGroup) madeFor(g *settings.Group) *foundGroup {
	f.from, f.made, f.refused = g.Discover, nil, ""
	if g.Discover.Template == nil {
		return &f
	}
	made, refused := g.Discover.Template.Tasks(f.entries())
	if refused != nil {
		f.refused = refused.Error()
	}
	own, taken := make(map[string]bool, len(g.Tasks)), make(map[string]bool, len(made))
	for i := range g.Tasks {
		own[g.Tasks[i].Name] = true
	}
	var inOwn, again leftOut
	f.made = slices.DeleteFunc(made, func(t tasks.Task) bool {
		switch {
		case own[t.Name]:
			inOwn.add(t.Name)
		case taken[t.Name]:
			again.add(t.Name)
		default:
			taken[t.Name] = true
			return false
		}
		return true
	})
	f.refused = joined(f.refused, inOwn.text("the group has %q in its own list, which wins"))
	f.refused = joined(f.refused, again.text("the published list has %q twice, of which the first counts"))
	return &f
}

// leftOut counts tasks that are left out for one reason.
type leftOut struct {
	n     int
	first string // its name
}

func (l *leftOut) add(name string) {
	if l.n++; l.n == 1 {
		l.first = name
	}
}

// text is the reason, with the name of the first; empty: none was left out.
func (l *leftOut) text(format string) string {
	switch l.n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(format, l.first)
	default:
		return fmt.Sprintf(format+" (and %d more)", l.first, l.n-1)
	}
}

// joined is both texts, or the one that is not empty.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// Apply is a configuration with the tasks of what was discovered, and l with these. Tasks that were made already by the
// same configuration are not made again.
func (l StoreLists) Apply(s *settings.Settings) (*settings.Settings, StoreLists) {
	made, next := map[string][]tasks.Task{}, maps.Clone(l.found)
	for i := range s.Groups {
		g := &s.Groups[i]
		f := l.found[g.Name]
		if f == nil || g.Discover == nil {
			continue
		}
		if f.from != g.Discover {
			f = f.madeFor(g)
			next[g.Name] = f
		}
		made[g.Name] = f.made
	}
	l.found = next
	if len(made) == 0 {
		return s, l
	}
	return s.WithDiscovered(made), l
}

// showDiscovery is what the API says of a group's discover; nil for a group without.
func (l StoreLists) showDiscovery(g *settings.Group) *api.Discovery {
	if g.Discover == nil || g.Discover.Lister == nil {
		return nil
	}
	shown := &api.Discovery{Lister: g.Discover.Lister.Kind()}
	f := l.found[g.Name]
	if f == nil {
		return shown
	}
	s := f.published.Status
	shown.Revision, shown.Found, shown.Vanished = f.published.Revision, s.Found, discover.Vanished(f.published.Entries)
	shown.LeftOut = s.LeftOut + len(f.published.Entries) - len(f.made)
	shown.By, shown.LookedAt = s.By, api.Millis(s.At)
	shown.Error, shown.FailingSince = joined(s.Error, f.failed), api.Millis(s.Since)
	return shown
}

// findDiscovery finds what is wrong with the discover of groups.
func (l StoreLists) findDiscovery(groups []settings.Group) []Finding {
	var found []Finding
	for i := range groups {
		g := &groups[i]
		f := l.found[g.Name]
		if f == nil || g.Discover == nil {
			continue
		}
		add := func(reason, message string) {
			found = append(found, Finding{Problem: api.Problem{
				Reason: reason, Severity: api.SeverityWarning, Group: g.Name, Message: Clip(message, driver.MaxText),
			}})
		}
		s := f.published.Status
		switch why := joined(s.Error, f.failed); {
		case s.Error != "":
			add(api.ProblemDiscoveryFailed,
				fmt.Sprintf("%s cannot list what exists: %s; nothing is removed meanwhile", s.By, why))
		case why != "":
			add(api.ProblemDiscoveryFailed, why)
		}
		why := f.refused
		if s.LeftOut > 0 {
			why = joined(fmt.Sprintf("%d were found, and discover.limit is %d", s.Found, g.Discover.Limit), why)
		}
		if why != "" {
			left := s.LeftOut + len(f.published.Entries) - len(f.made)
			add(api.ProblemDiscoveryIncomplete, fmt.Sprintf("%d that were found have no task: %s", left, why))
		}
	}
	return found
}
