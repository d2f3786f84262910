package view

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// StoreLists are the lists that are published in the store, as last read: what was discovered, and weights that follow
// what is measured. The zero value has read none. A value never changes.
type StoreLists struct {
	found   map[string]*foundGroup    // by group that has discover
	weights map[string]*weightedGroup // by group whose weights are measured
}

// weightedGroup is the weights that are published for one group.
type weightedGroup struct {
	published weights.Published
	levels    map[string]int // by name of a task
}

// WithDiscovered is l with what was read of a group's list. failed says why it could not be read, empty: it was.
// changed says that the list is another one.
func (l StoreLists) WithDiscovered(
	group string, p discover.Published, failed string,
) (next StoreLists, changed bool) {
	f := &foundGroup{published: p, failed: failed, asOf: &atomic.Int64{}}
	changed = true
	if before := l.found[group]; before != nil {
		f.asOf = before.asOf
		if before.published.Revision == p.Revision && sameSlice(before.published.Entries, p.Entries) {
			f.from, f.made, f.refused = before.from, before.made, before.refused
			changed = false
		}
	}
	f.asOf.Store(p.AsOf)
	l.found = with(l.found, group, f)
	return l, changed
}

// WithWeights is l with what was read of a group's weights. changed says that they are others.
func (l StoreLists) WithWeights(group string, p weights.Published) (next StoreLists, changed bool) {
	before := l.weights[group]
	if before == nil && p.Revision == 0 || before != nil && before.published.Revision == p.Revision &&
		sameSlice(before.published.Entries, p.Entries) {
		return l, false
	}
	l.weights = with(l.weights, group, &weightedGroup{published: p, levels: weights.Levels(p.Entries)})
	return l, true
}

// with is a copy of a map with one more value.
func with[V any](m map[string]V, key string, value V) map[string]V {
	next := maps.Clone(m)
	if next == nil {
		next = map[string]V{}
	}
	next[key] = value
	return next
}

// sameSlice says whether two slices are one.
func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Listed says whether all tasks of a group are known: it discovers none, or a list of them was published and read.
func (l StoreLists) Listed(g *settings.Group) bool {
	return g.Discover == nil || l.found[g.Name] != nil && l.found[g.Name].published.Revision > 0
}

// Declared is what the balancer is to know of a configuration that was made by [StoreLists.Apply].
func (l StoreLists) Declared(s *settings.Settings) reconcile.Declared {
	d := reconcile.Declared{Revision: s.Revision, Chores: choreGroups(s)}
	for gi := range s.Groups {
		g := &s.Groups[gi]
		group := reconcile.DeclaredGroup{
			Name: g.Name, Selector: g.Selector, Hash: g.Hash, Keys: make([]reconcile.DeclaredKey, len(g.Tasks)),
			WeightRevision: l.weightRevision(g),
		}
		for i := range g.Tasks {
			t := &g.Tasks[i]
			group.Keys[i] = reconcile.DeclaredKey{
				Key: t.Key(), Weight: l.weight(g, t), Discovered: t.Discovered != tasks.Discovered{},
			}
		}
		if f := l.found[g.Name]; f != nil {
			group.AsOf = f.asOf.Load
		}
		d.Groups = append(d.Groups, group)
	}
	return d
}

// choreGroups are the groups of locks under which one replica does something for all.
func choreGroups(s *settings.Settings) []string {
	var all []string
	if slices.ContainsFunc(s.Groups, func(g settings.Group) bool { return g.Discover != nil }) {
		all = append(all, record.GroupDiscovery)
	}
	if slices.ContainsFunc(s.Groups, func(g settings.Group) bool { return g.WeightFrom.Measured() }) {
		all = append(all, record.GroupWeights)
	}
	return all
}

// weight is the one that a task is planned with.
func (l StoreLists) weight(g *settings.Group, t *tasks.Task) int {
	if read := l.weights[g.Name]; read != nil && g.Measures(t) {
		return MeasureOf(g).Weight(t.Weight, read.levels, t.Name)
	}
	return MeasureOf(g).Weight(t.Weight, nil, t.Name)
}

// MeasureOf is what the weights of a group follow; of one whose weights are declared it is a lag that nothing has.
func MeasureOf(g *settings.Group) weights.Measure {
	if g.WeightFrom.Loads() {
		return weights.Load
	}
	return weights.Lag
}

// weightRevision is that of the weights that a group is planned with; 0: those that are declared.
func (l StoreLists) weightRevision(g *settings.Group) int64 {
	if read := l.weights[g.Name]; read != nil && g.WeightFrom.Measured() {
		return read.published.Revision
	}
	return 0
}

// WeightRevisions are those of all groups whose weights are published.
func (l StoreLists) WeightRevisions(s *settings.Settings) map[string]int64 {
	all := map[string]int64{}
	for i := range s.Groups {
		if revision := l.weightRevision(&s.Groups[i]); revision > 0 {
			all[s.Groups[i].Name] = revision
		}
	}
	return all
}

// showWeights is what the API says of a group's weights; nil for a group whose weights are those that are declared.
func (l StoreLists) showWeights(g *settings.Group) *api.Weights {
	if !g.WeightFrom.Measured() {
		return nil
	}
	shown := &api.Weights{From: string(g.WeightFrom)}
	read := l.weights[g.Name]
	if read == nil {
		return shown
	}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if l.weight(g, t) > MeasureOf(g).Weight(t.Weight, nil, t.Name) {
			shown.Raised++
		}
	}
	p := read.published
	shown.Revision, shown.By, shown.PublishedAt = p.Revision, p.Status.By, api.Millis(p.Status.At)
	return shown
}

// Clip cuts a text to at most so many bytes, between two characters.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
