package verbs

import (
	"slices"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
)

// What verbs are about.
var (
	ofTasks     = []record.Scope{record.ScopeTask}
	ofBoth      = []record.Scope{record.ScopeTask, record.ScopeGroup}
	ofGroups    = []record.Scope{record.ScopeGroup}
	ofInstances = []record.Scope{record.ScopeInstance}
)

// States of tasks and instances.
var (
	paused = []string{string(api.Paused)}
	ended  = []string{string(api.Done), string(api.Failed)}
	runs   = []string{string(api.Starting), string(api.Running), string(api.Stopping), string(api.Backoff)}
	dead   = []string{string(api.Dead)}
)

var rows = []Verb{
	{
		Name: api.Pause, Back: api.Resume, Kind: record.OverridePause, Scopes: ofBoth, Role: Operate,
		Sentence: "Stop {it}, and run {them} nowhere until resume.",
		Page: Page{
			Effect:        "It stops, and runs nowhere until resume.",
			EffectOnGroup: "Its tasks stop, and run nowhere until resume; those declared later as well.",
			Strong:        true, Never: paused, Button: 4,
		},
		Help: Help{
			Past:  "paused",
			Short: "Stop tasks, and run them nowhere until resume",
			Long: `Stop tasks, and run them nowhere until resume. With -g and no task the whole group is paused, ` +
				`tasks that are
declared later included. Ticks that are missed meanwhile are not caught up. With --for the pause ends by itself, by the
store's clock.`,
			Example: `  shardctl pause topics/topic-007 --reason "its topic is being rebuilt"
  shardctl pause -g topics --for 2h
  shardctl pause -l team=core --dry-run`,
		},
	},
	{
		Name: api.Resume, Kind: record.OverridePause, Scopes: ofBoth, Role: Operate,
		Sentence: "Let {it} run again.",
		Page:     Page{Effect: "It may run again.", Button: 5},
		Help: Help{
			Past:  "resumed",
			Short: "Let paused tasks run again",
			Long: "Let paused tasks run again. A group that was paused as a whole is resumed as a whole: with -g " +
				"and no task.",
			Example: "  shardctl resume topics/topic-007\n  shardctl resume -g topics",
		},
	},
	{
		Name: api.Restart, Kind: record.OverrideRestart, Scopes: ofTasks, Role: Operate,
		Sentence: "End what runs of {it}, and start it again.",
		Page: Page{
			Effect: "The run is ended and begins again, on the same instance.", Strong: true, Only: runs, Button: 3,
		},
		Help: Help{
			Past:  "restarted",
			Short: "End what runs of tasks, and start it again where it is",
			Long: "End what runs of tasks, as a stop would, and start it again on the same instance with a new " +
				"fencing token.",
			Example: "  shardctl restart 'topics/topic-0*'\n  shardctl restart -g topics",
		},
	},
	{
		Name: api.Rerun, Kind: record.OverrideRerun, Scopes: ofTasks, Role: Operate,
		Sentence: "Run {it} again, that ended for good.",
		Page:     Page{Effect: "Its outcome is forgotten, and it runs once more.", Only: ended, Button: 2},
		Help: Help{
			Past:    "to run again",
			Short:   "Run tasks again that are done or have failed",
			Long:    "Run tasks again that are done or have failed for good: their outcome is forgotten.",
			Example: "  shardctl rerun jobs/import-2026 --reason \"the input was fixed\"",
		},
	},
	{
		Name: api.Trigger, Kind: record.OverrideTrigger, Scopes: ofTasks, Role: Operate,
		Sentence: "Fire one tick now of {it}.",
		Page:     Page{Effect: "One tick more, now.", Never: paused, Ticks: true, Button: 1},
		Help: Help{
			Past:  "triggered",
			Short: "Fire one tick now, of tasks with a schedule",
			Long: `Fire one tick now, of tasks with schedule or every, in addition to those that are due. While a ` +
				`run goes, the tick is fired
after it.`,
			Example: "  shardctl trigger jobs/nightly-report",
		},
	},
	{
		Name: api.Pin, Back: api.Unpin, Kind: record.OverridePin, Scopes: ofTasks, Target: ToPlace, Role: Admin,
		Sentence: "Keep {it} on an instance.",
		Page:     Page{Effect: "It is kept on an instance, as a preference or strictly.", Strong: true, Button: 6},
		Help: Help{
			Past:  "pinned",
			Short: "Keep tasks on an instance",
			Long: `Keep tasks on an instance. INSTANCE may be a pattern (web-*) or a zone (zone=eu-1). It is a ` +
				`preference: where no such
instance lives or has capacity, they run elsewhere, and what is not seen for 24 hours is forgotten. With --strict they
stay unassigned then, and the pin is kept until unpin.`,
			Example: `  shardctl pin topics/topic-007 web-1
  shardctl pin -l team=core 'zone=eu-1' --strict`,
		},
	},
	{
		Name: api.Unpin, Kind: record.OverridePin, Scopes: ofTasks, Role: Admin,
		Sentence: "Let {it} go where the plan puts {them}.",
		Page:     Page{Effect: "It may be on any instance again.", Button: 7},
		Help: Help{
			Past:    "unpinned",
			Short:   "Let pinned tasks go where the plan puts them",
			Example: "  shardctl unpin topics/topic-007\n  shardctl unpin -l team=core",
		},
	},
	{
		Name: api.Move, Kind: record.OverrideMove, Scopes: ofTasks, Target: ToInstance, Role: Admin,
		Sentence: "Hand {it} over to an instance, once.",
		Page: Page{
			Effect: "One hand-over now. The balancer may move it again later.", Strong: true,
			Never: slices.Concat(paused, ended), Button: 8,
		},
		Help: Help{
			Past:  "asked to move",
			Short: "Hand tasks over to an instance, once",
			Long: "Hand tasks over to an instance, once. The balancer may move them again later: to keep them there, " +
				"pin them.",
			Example: "  shardctl move topics/topic-007 web-2",
		},
	},
	{
		Name: api.Rebalance, Kind: record.OverrideRebalance, Scopes: ofGroups, Role: Admin,
		Sentence: "Spread a group evenly now.",
		Page:     Page{Effect: "The group is spread again, without waiting for rebalance.settle.", Button: 9},
		Help: Help{
			Past:  "to be spread evenly",
			Short: "Spread tasks evenly now",
			Long: "Spread the tasks of a group, or of all, evenly now: without waiting for membership to settle or " +
				"an update to end.",
			Example: "  shardctl rebalance -g topics --dry-run",
		},
	},
	{
		Name: api.Drain, Back: api.Undrain, Kind: record.OverrideDrain, Scopes: ofInstances, Role: Admin,
		Later:    true,
		Sentence: "Have {it} hand over all its tasks, and take none until undrain.",
		Page: Page{
			Effect: "It releases all its tasks in order, and gets none until undrain.", Strong: true, Never: dead,
			Button: 10,
		},
		Help: Help{
			Past:  "draining",
			Short: "Have an instance hand over all its tasks, and take none until undrain",
			Long: `Have an instance hand over all its tasks, each as soon as it has stopped, and take none until ` +
				`undrain, also after a
restart. The command waits until the instance owns nothing; --wait=false only asks. With --config it looks into the
store, and ends when no replica is up that could take tasks over. A drain of an instance that is not seen for 24 hours
is forgotten.

Exit code 0: it owns nothing; 1: it could not be asked for, or it still owns tasks and stays drained.`,
			Example: `  shardctl drain web-1 --reason "a new kernel" --timeout 5m
  shardctl drain web-1 --dry-run
  shardctl drain web-1 --config shardctl.yaml`,
		},
	},
	{
		Name: api.Undrain, Kind: record.OverrideDrain, Scopes: ofInstances, Role: Admin,
		Sentence: "Let {it} take tasks again.",
		Page:     Page{Effect: "It may own tasks again.", Never: dead, Button: 11},
		Help: Help{
			Past:  "undrained",
			Short: "Let a drained instance take tasks again",
			Long: "Let a drained instance take tasks again. It gets its share as balance asks for, once " +
				"membership has settled.",
			Example: "  shardctl undrain web-1",
		},
	},
	{
		Name: api.Cordon, Back: api.Uncordon, Kind: record.OverrideCordon, Scopes: ofInstances, Role: Admin,
		Sentence: "Let {it} take no new tasks, and keep what it has.",
		Page:     Page{Effect: "It gets no new tasks, and keeps what it has.", Never: dead, Button: 12},
		Help: Help{
			Past:  "cordoned",
			Short: "Let an instance take no new tasks, and keep what it has",
			Long: `Let an instance take no new tasks, and keep what it has, until uncordon. A cordon of an instance ` +
				`that is not seen
for 24 hours is forgotten.`,
			Example: `  shardctl cordon web-1 --reason "a noisy neighbour"`,
		},
	},
	{
		Name: api.Uncordon, Kind: record.OverrideCordon, Scopes: ofInstances, Role: Admin,
		Sentence: "Let {it} take new tasks again.",
		Page:     Page{Effect: "It may get new tasks again.", Never: dead, Button: 13},
		Help: Help{
			Past:    "uncordoned",
			Short:   "Let a cordoned instance take new tasks again",
			Example: "  shardctl uncordon web-1",
		},
	},
}
