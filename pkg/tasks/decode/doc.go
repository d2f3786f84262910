// Package decode is what configurations are read with: values that know where they stand, variables in them, and a
// list of all that is wrong.
//
// A [Node] is a value of a configuration. What reads the files (YAML, as a rule) makes the nodes. A kind of task then
// takes its fields from its own node with a [Reader]. What a reader gives is final text: $(NAME) is replaced. Only the
// texts of kinds stay as they are written and are replaced at each start. Errors never quote what a variable holds.
package decode
