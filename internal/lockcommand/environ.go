package lockcommand

import (
	"maps"
	"strconv"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/exec"
)

// variables are what the command is told of its lock.
func (r *Run) variables(session string, token int64) tasks.Variables {
	return tasks.Variables{
		"SHARDCTL_KEY":           Group + "/" + r.Key,
		"SHARDCTL_FENCING_TOKEN": strconv.FormatInt(token, 10),
		"SHARDCTL_INSTANCE":      r.Elector.Member.Instance,
		"SHARDCTL_SESSION":       session,
	}
}

// environ is the command's environment: this process's, without what is kept from tasks as well.
func environ(base []string, own tasks.Variables) []string {
	all := tasks.ParseEnviron(base)
	maps.DeleteFunc(all, func(name, _ string) bool { return exec.Withheld(name) })
	maps.Copy(all, own)
	return all.List()
}
