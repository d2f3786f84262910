package testmongo

import (
	"fmt"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The database and the cluster that the documentation has as its example.
var (
	documentedDatabase = regexp.MustCompile(`("db": |getSiblingDB\()"shardctl"`)
	documentedCluster  = regexp.MustCompile(`"default\.`)
	documentedCall     = regexp.MustCompile(`(?m)^db\.getSiblingDB\("[^"]*"\)\.runCommand\(`)
)

// Documented returns the commands in the code block of a page that follows the comment <!-- marker -->, for another
// database and cluster. So tests run what people are asked to.
func Documented(page, marker, database, cluster string) ([]bson.D, error) {
	_, after, found := strings.Cut(page, "<!-- "+marker+" -->\n```js\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		return nil, fmt.Errorf("no code block %q", marker)
	}
	block = documentedDatabase.ReplaceAllString(block, `${1}"`+database+`"`)
	block = documentedCluster.ReplaceAllString(block, `"`+cluster+`.`)
	calls := documentedCall.Split(block, -1)
	if len(calls) < 2 {
		return nil, fmt.Errorf("no command in block %q", marker)
	}
	var commands []bson.D
	for _, call := range calls[1:] {
		var command bson.D
		if err := bson.UnmarshalExtJSON(
			[]byte(strings.TrimSuffix(strings.TrimSpace(call), ")")), false, &command,
		); err != nil {
			return nil, fmt.Errorf("block %q: %w: %s", marker, err, call)
		}
		commands = append(commands, command)
	}
	return commands, nil
}
