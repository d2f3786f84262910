package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

var shells = []string{"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh", "fish"}

// isScript says of an option of a shell that the script follows.
var isScript = regexp.MustCompile(`^-[a-zA-Z]*c[a-zA-Z]*$`)

// warnOfShell warns of a name that somebody else gave and that a shell reads as a part of its script: a topic, or a
// line of a list, could then hold commands.
func (l *listReader) warnOfShell(task *decode.Node) {
	for _, command := range []*decode.Node{task.At("exec", "command"), task.At("deliver", "exec", "command")} {
		script := shellScript(command.List())
		if script != nil && strings.Contains(script.Raw, "$(DISCOVERED_NAME") {
			l.Warn(script,
				"puts $(DISCOVERED_NAME) into a shell's script, and a name that holds shell syntax is executed: "+
					`write "$DISCOVERED_NAME" there, which is in the environment, or make it an argument after the script`)
		}
	}
}

// shellScript is the argument of a command line that a shell takes for its script; nil: there is none. The shell may be
// run by another program, as env or timeout.
func shellScript(command []*decode.Node) *decode.Node {
	i := slices.IndexFunc(command, func(n *decode.Node) bool { return slices.Contains(shells, path.Base(n.Raw)) })
	if i < 0 {
		return nil
	}
	given := false // -c, perhaps among other letters
	for i++; i < len(command); i++ {
		option := command[i].Raw
		switch {
		case !strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "+"):
			if given {
				return command[i]
			}
			return nil // a file
		case strings.HasPrefix(option, "--"):
		case strings.HasSuffix(option, "o"): // the name of an option follows, as in -eo pipefail
			i++
		}
		given = given || isScript.MatchString(option)
	}
	return nil
}
