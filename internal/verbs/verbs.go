// Package verbs has a row for each change that operators can ask for. The routes and the description of the HTTP API,
// requests, commands, the buttons of the page and the table of the documentation are made from the rows.
//
// What a verb does is not here: internal/operate decides whether it can be done, and leaves an override of its kind.
// The balancer or the replica that owns a task acts on that.
package verbs

import (
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
)

// Verb is a change that operators can ask for.
type Verb struct {
	Name api.Verb
	// Back is the verb that takes it back. What such a verb asks for lasts until then; else it has one effect, or takes
	// back what another verb asked for.
	Back   api.Verb
	Kind   record.OverrideKind // of the override that it leaves, or takes back
	Scopes []record.Scope      // what it may be about
	Target Target
	Role   Role // the least that a token needs
	// Later is set where the answer comes before the effect: 202 Accepted.
	Later bool

	Help Help
	Page Page
	// Sentence describes it in the API. {it} stands for what it is about, and {them} for the pronoun of that.
	Sentence string
}

// Target is what a verb has to be told besides what it is about.
type Target int

// The targets.
const (
	NoTarget   Target = iota
	ToInstance        // the name of an instance
	ToPlace           // an instance, a pattern of instances or a zone; strictly or as a preference
)

// Help is what the command line says of a verb.
type Help struct {
	Past                 string // "paused"
	Short, Long, Example string
}

// Page is how the page offers a verb.
type Page struct {
	Effect        string // what it will do, for who is asked to confirm it
	EffectOnGroup string // the same where it is about a group as a whole; empty: Effect
	Strong        bool   // it stops or moves what runs
	// Only has the states of tasks in which it is offered, where they are few. Never has those of tasks and instances in
	// which it is not.
	Only, Never []string
	Ticks       bool // it is offered for tasks with ticks alone
	Button      int  // the order of the buttons, from the left
}

// Lasts reports whether what v asks for lasts until it is taken back, or for a while that the request may give.
func (v Verb) Lasts() bool { return v.Back != "" }

// TakesBack reports whether v takes back what another verb asked for.
func (v Verb) TakesBack() bool { return !v.Lasts() && !v.Kind.Once() }

// About reports whether v may be about such objects.
func (v Verb) About(scope record.Scope) bool { return slices.Contains(v.Scopes, scope) }

// NamesInstances reports whether what v asks for lasts and names instances: the one that it is about, or where tasks
// belong.
func (v Verb) NamesInstances() bool {
	return v.Lasts() && (v.Target != NoTarget || v.About(record.ScopeInstance))
}

// All returns every verb: those of tasks, of groups and of instances. The caller may change the list.
func All() []Verb { return slices.Clone(rows) }

// Find returns the row of a verb. ok reports whether there is such a verb.
func Find(name api.Verb) (v Verb, ok bool) {
	return find(func(v Verb) bool { return v.Name == name })
}

// Leaving returns the verb that leaves overrides of a kind. ok reports whether one does.
func Leaving(kind record.OverrideKind) (v Verb, ok bool) {
	return find(func(v Verb) bool { return v.Kind == kind && !v.TakesBack() })
}

func find(is func(Verb) bool) (Verb, bool) {
	if i := slices.IndexFunc(rows, is); i >= 0 {
		return rows[i], true
	}
	return Verb{}, false
}

// Names returns the names of the verbs for which is reports true.
func Names(is func(Verb) bool) []api.Verb {
	var names []api.Verb
	for _, v := range rows {
		if is(v) {
			names = append(names, v.Name)
		}
	}
	return names
}

// Of returns the names of the verbs that may be about such objects.
func Of(scope record.Scope) []api.Verb {
	return Names(func(v Verb) bool { return v.About(scope) })
}

// Route is a path of the HTTP API that takes a change by POST.
type Route struct {
	Verb
	Path    string // as [net/http.ServeMux] takes it
	Scope   record.Scope
	Many    bool // the body selects tasks; else the path names one object
	Summary string
}

// Routes returns every path that takes a change: those of one task, of many, of a group and of an instance.
func Routes() []Route {
	var routes []Route
	for _, under := range []struct {
		path     string
		scope    record.Scope
		many     bool
		it, them string
	}{
		{"/api/v1/tasks/{group}/{name}/", record.ScopeTask, false, "a task", "it"},
		{"/api/v1/tasks/", record.ScopeTask, true, "the tasks that are selected", "them"},
		{"/api/v1/groups/{name}/", record.ScopeGroup, false, "a group with all tasks that it will have", "them"},
		{"/api/v1/instances/{name}/", record.ScopeInstance, false, "an instance", "it"},
	} {
		words := strings.NewReplacer("{it}", under.it, "{them}", under.them)
		for _, v := range rows {
			if v.About(under.scope) {
				routes = append(routes, Route{
					Verb: v, Path: under.path + string(v.Name), Scope: under.scope, Many: under.many,
					Summary: words.Replace(v.Sentence),
				})
			}
		}
	}
	return routes
}
