// Package exec is the kind of task that runs a command.
//
// The command gets the replica's environment less what opens the store or the admin API. It also gets the env of the
// task, and the task's own variables such as SHARDCTL_FENCING_TOKEN. It counts as running at once, after a delay, or
// when it says READY=1 as sd_notify(3) does.
package exec
