package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/variables"
)

// namesFile says whether a scalar of a task names a file, a directory or a program: fields called …File, dir and path,
// and the first word of a command.
func namesFile(n *decode.Node) bool {
	if n.Parent != nil && n.Parent.Shape == decode.List {
		return n.Parent.Key == "command" && n.Index == 0
	}
	return strings.HasSuffix(n.Key, "File") || n.Key == "dir" || n.Key == "path"
}

// discoveredFiles are the fields of a template that name a file by a name that was discovered.
func discoveredFiles(template *decode.Node) (fields []string) {
	template.Scalars(func(n *decode.Node) {
		if namesFile(n) && n.Uses(variables.DiscoveredName) {
			fields = append(fields, n.Field())
		}
	})
	slices.Sort(fields)
	return fields
}

// checkFiles refuses a name that would lead a field of the template to another directory than the one that is written:
// whoever names a topic or a queue could choose any file.
func (t *template) checkFiles(f discover.Found) error {
	if len(t.files) == 0 || f.Name != "." && !strings.Contains(f.Name, "/") && !strings.Contains(f.Name, "..") {
		return nil
	}
	return fmt.Errorf("%s: names a file by $(DISCOVERED_NAME), and a name with / or .. could lead to any: "+
		"use $(SHARDCTL_TASK), in which these are escaped", t.files[0])
}
