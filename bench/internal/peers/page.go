//go:build linux

package peers

import (
	"fmt"
	"os"
	"strings"
)

// Write puts a table between the marks of a page that have its name: lines <!-- NAME: begin --> and <!-- NAME: end -->.
func Write(page, name, table string) error {
	data, err := os.ReadFile(page) //nolint:gosec // named by who runs it
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	before, rest, begins := strings.Cut(string(data), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s: no lines %q and %q", page, strings.TrimSpace(begin), end)
	}
	data = []byte(before + begin + table + end + after)
	return os.WriteFile(page, data, 0o644) //nolint:gosec // a page of the documentation
}
