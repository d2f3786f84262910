// Package verbs lists the changes that the HTTP API takes: what each is about, its path, and the role that it needs.
package verbs

import (
	"slices"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
)

// Route is a path of the HTTP API that takes a change by POST.
type Route struct {
	Path    string // as [net/http.ServeMux] takes it
	Scope   record.Scope
	Verb    api.Verb
	Many    bool // the body selects tasks; else the path names one object
	Role    Role // the least that a token needs
	Summary string
}

// Routes lists every path that takes a change: those of tasks, of groups and of instances. The caller may change the
// list.
func Routes() []Route {
	one := func(scope record.Scope, verb api.Verb, role Role, summary string) Route {
		under := map[record.Scope]string{
			record.ScopeTask:     "/api/v1/tasks/{group}/{name}/",
			record.ScopeGroup:    "/api/v1/groups/{name}/",
			record.ScopeInstance: "/api/v1/instances/{name}/",
		}[scope]
		return Route{Path: under + string(verb), Scope: scope, Verb: verb, Role: role, Summary: summary}
	}
	many := func(verb api.Verb, role Role, summary string) Route {
		path := "/api/v1/tasks/" + string(verb)
		return Route{Path: path, Scope: record.ScopeTask, Verb: verb, Many: true, Role: role, Summary: summary}
	}
	const task, group, instance = record.ScopeTask, record.ScopeGroup, record.ScopeInstance
	return []Route{
		one(task, api.Pause, Operate, "Stop a task, and run it nowhere until resume."),
		one(task, api.Resume, Operate, "Let a task run again."),
		one(task, api.Restart, Operate, "End what runs of a task, and start it again."),
		one(task, api.Rerun, Operate, "Run a task again, that ended for good."),
		one(task, api.Trigger, Operate, "Fire one tick now of a task."),
		one(task, api.Pin, Admin, "Keep a task on an instance."),
		one(task, api.Unpin, Admin, "Let a task go where the plan puts it."),
		one(task, api.Move, Admin, "Hand a task over to an instance, once."),

		many(api.Pause, Operate, "Stop the tasks that are selected, and run them nowhere until resume."),
		many(api.Resume, Operate, "Let the tasks that are selected run again."),
		many(api.Restart, Operate, "End what runs of the tasks that are selected, and start it again."),
		many(api.Rerun, Operate, "Run the tasks that are selected again, that ended for good."),
		many(api.Trigger, Operate, "Fire one tick now of the tasks that are selected."),
		many(api.Pin, Admin, "Keep the tasks that are selected on an instance."),
		many(api.Unpin, Admin, "Let the tasks that are selected go where the plan puts them."),
		many(api.Move, Admin, "Hand the tasks that are selected over to an instance, once."),

		one(group, api.Pause, Operate,
			"Stop a group with all tasks that it will have, and run them nowhere until resume."),
		one(group, api.Resume, Operate, "Let a group with all tasks that it will have run again."),
		one(group, api.Rebalance, Admin, "Spread a group evenly now."),

		one(instance, api.Drain, Admin, "Have an instance hand over all its tasks, and take none until undrain."),
		one(instance, api.Undrain, Admin, "Let an instance take tasks again."),
		one(instance, api.Cordon, Admin, "Let an instance take no new tasks, and keep what it has."),
		one(instance, api.Uncordon, Admin, "Let an instance take new tasks again."),
	}
}

// Of lists the verbs that are about tasks, groups as a whole, or instances.
func Of(scope record.Scope) []api.Verb {
	var verbs []api.Verb
	for _, route := range Routes() {
		if route.Scope == scope && !slices.Contains(verbs, route.Verb) {
			verbs = append(verbs, route.Verb)
		}
	}
	return verbs
}
