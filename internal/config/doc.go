// Package config turns YAML files into checked [settings.Settings], and watches the files for changes.
//
// [Load] goes through these steps, for each file by itself up to the fourth, and gathers what is wrong in all of them:
//
//  1. find the files: of a directory *.yaml and *.yml, no dot names, not below;
//  2. read the YAML into nodes that know their line and column. Aliases and merge keys are resolved, and fields that
//     stand twice are errors. Keys that begin with x- are dropped (but not in labels, env and headers, where names are
//     free);
//  3. replace $(NAME), $(NAME:-text) and $(file:/path) in values, once. Texts of what tasks run stay as they are
//     written, since they are replaced at each start. They are only checked for variables that are not set. Values with
//     one of a task's own variables, such as $(SHARDCTL_INDEX), wait until the task is built;
//  4. hold it against the schema, which also decides what is text. Text takes a scalar as it is written (007, 1.10,
//     no); a number or a truth may come from a variable. The schema is put together from its base, the lists
//     of fields and the kinds of tasks;
//  5. join the files. A group that is named in several is one, and its cap, instances and defaults stand in one of
//     them. All else but version stands once;
//  6. for each task lay its own fields over the group's defaults and expand the braces of its name. Have its kind read
//     what runs, build a [tasks.Task] and check what a schema cannot say.
//
// A default that does not go with a task is left out for it. Examples are restart for a task with a schedule, and exec
// for one with http. Written in the task itself it is an error.
//
// SHARDCTL_INDEX is the place of a name among those that its braces make, counted from 0; the last braces change
// fastest.
//
// Errors never quote what a variable holds, the store's URI, or texts of what tasks run. [Config.Print] shows what
// comes from outside the files as it is written.
package config
