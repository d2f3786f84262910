package kind

import (
	"slices"

	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Limits of the numbers in a task.
const (
	most  = 1_000_000_000
	large = 1_000_000
)

// FieldsOf lists the fields of a task but its name: those that all have whatever they run, and, where they belong, work
// and retry, the fields that kinds bring to a task and to its retry.
func FieldsOf(t *tasks.Task, work, retry field.List) field.List {
	unset := tasks.Task{}.WithDefaults()
	backoff := func(b, unset *tasks.Backoff) field.List {
		return field.List{
			{Name: "initial", Value: field.Duration{To: &b.Initial, Default: unset.Initial}},
			{Name: "max", Value: field.Duration{To: &b.Max, Default: unset.Max}},
		}
	}
	return slices.Concat(field.List{
		{Name: "labels", Value: field.Labels{To: &t.Labels}, Live: true, Doc: "For people, and for `-l` of `get`."},
		{
			Name: "weight", Value: field.Number{To: &t.Weight, Default: unset.Weight, Min: 1, Max: large}, Live: true,
			Doc: "Share of the load, 1 to 1,000,000. Where weights differ, no load is more than 5 % above the mean, or above " +
				"it by the heaviest task.",
		},
	}, work, field.List{
		{Name: "stop", Live: true, Doc: "How a command is asked to end.", Value: field.Mapping{Fields: field.List{
			{Name: "signal", Doc: "Sent to the whole process group.", Value: field.Text{
				To: &t.Stop.Signal, Default: unset.Stop.Signal,
				OneOf: []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"},
			}},
			{
				Name: "timeout", Doc: "SIGKILL follows after it. After a lost lease SIGKILL comes at 0.8 T in any case.",
				Value: field.Duration{
					To: &t.Stop.Timeout, Default: unset.Stop.Timeout, Instead: ", or set stop.signal: SIGKILL",
				},
			},
		}}},
		{
			Name: "restart", With: field.Owned, Live: true,
			Doc: "When it ends by itself it starts again: `always`, `on-failure` only, or `never`.",
			Value: field.Text{To: (*string)(&t.Restart), Default: string(unset.Restart), OneOf: oneOf(
				tasks.RestartAlways, tasks.RestartOnFailure, tasks.RestartNever,
			)},
		},
		{
			Name: "backoff", With: field.Owned, Live: true,
			Doc: "Delay before a restart, which doubles from `initial` to `max`.",
			Value: field.Mapping{Fields: append(backoff(&t.Backoff, &unset.Backoff), field.Field{
				Name: "resetAfter", Doc: "A run of at least this long sets the delay back.",
				Value: field.Duration{To: &t.Backoff.ResetAfter, Default: unset.Backoff.ResetAfter},
			})},
		},
		{
			Name: "maxRestarts", Value: field.Number{To: &t.MaxRestarts, Max: most}, With: field.Owned, Live: true,
			Doc: "After so many restarts the task is failed. 0: no limit.",
		},
		{
			Name: "schedule", Value: field.Text{To: &t.Schedule}, With: field.Ticked,
			Doc: "Five fields: minute, hour, day, month, weekday (names, or 0–7). Or `@hourly` `@daily` `@weekly` `@monthly` " +
				"`@yearly`. No `TZ=`, `@every`, `@reboot`, and no dates that never come.",
		},
		{
			Name: "every", Value: field.Duration{To: &t.Every}, With: field.Ticked, Off: t.Every == 0,
			Doc: "An interval in whole milliseconds. Ticks are at epoch + hash(key) mod every + k × every, so fail-over " +
				"shifts none.",
		},
		{
			Name: "timeZone", Value: field.Text{To: &t.TimeZone, Default: unset.TimeZone}, With: field.Ticked,
			Off: t.Schedule == "", Doc: "Of `schedule`: a name of the IANA database.",
		},
		{
			Name: "overlap", With: field.Ticked, Live: true,
			Doc: "When a run has not ended at the next tick: `skip` that tick, or `replace` the run.",
			Value: field.Text{To: (*string)(&t.Overlap), Default: string(unset.Overlap), OneOf: oneOf(
				tasks.OverlapSkip, tasks.OverlapReplace,
			)},
		},
		{
			Name: "catchUp", With: field.Ticked, Live: true,
			Doc: "After a time without an owner: run the newest missed tick once (`last`), or `none`.",
			Value: field.Text{To: (*string)(&t.CatchUp), Default: string(unset.CatchUp), OneOf: oneOf(
				tasks.CatchUpNone, tasks.CatchUpLast,
			)},
		},
		{
			Name: "catchUpWindow", With: field.Ticked, Live: true, Off: t.CatchUp == tasks.CatchUpNone,
			Doc: "Ticks that are older are not caught up. An error with `catchUp: none`.",
			Value: field.Duration{
				To: &t.CatchUpWindow, Default: unset.CatchUpWindow,
				Instead: ", or leave it out and set catchUp: none",
			},
		},
		{
			Name: "timeout", Value: field.Duration{To: &t.Timeout, Zero: true}, With: field.Ticked, Live: true,
			Doc: "Of one run. 0s: none.",
		},
		{
			Name: "retry", With: field.Ticked, Live: true, Doc: "Attempts of one run.",
			Value: field.Mapping{Fields: slices.Concat(field.List{{
				Name: "attempts", Doc: "How many in all.",
				Value: field.Number{To: &t.Retry.Attempts, Default: unset.Retry.Attempts, Min: 1, Max: large},
			}}, retry, field.List{{
				Name: "backoff", Doc: "Delay between attempts.",
				Value: field.Mapping{Fields: backoff(&t.Retry.Backoff, &unset.Retry.Backoff)},
			}})},
		},
	})
}

// oneOf are alternatives as texts.
func oneOf[T ~string](all ...T) []string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return texts
}

// What does not depend on the task. It is asked for each task of a list.
var (
	ofAny        = FieldsOf(&tasks.Task{}, nil, nil)
	fieldsOfWork = Fields{Owned: ofAny.Names(field.Owned), Ticked: ofAny.Names(field.Ticked)}
	anyShown     = ofAny.AnyShown()
)

// FieldsOfWork are those of work that can be restarted, and fired at ticks. They must not be changed.
func FieldsOfWork() Fields { return fieldsOfWork }

// Declared are the fields of a task that are shown, by name, as a configuration has them; nil where there are none.
func Declared(t *tasks.Task) map[string]string {
	if !anyShown {
		return nil
	}
	return FieldsOf(t, nil, nil).For(withTicks(t.Ticks())).Shown()
}

// withTicks says which fields a task has by whether it is fired at ticks.
func withTicks(ticks bool) field.With {
	if ticks {
		return field.Ticked
	}
	return field.Owned
}
