package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/shardctl/shardctl/internal/decode"
)

// canonical is a task as it is written, its defaults included, and the names it makes but for their braces. The order
// of fields, comments and files does not change it.
func canonical(task *decode.Node) string {
	name := task.Get("name")
	text := ""
	if name != nil {
		text = name.Text
	}
	return jsonText(map[string]any{"name": text, "task": task.Written()})
}

// canonicalDiscover is what stands of discover and its template in a group, as canonical is of a task.
func canonicalDiscover(group *decode.Node) string {
	parts := map[string]any{}
	for _, name := range []string{"discover", "template", "defaults"} {
		if n := group.Get(name); n != nil {
			parts[name] = n.Written()
		}
	}
	return jsonText(parts)
}

// canonicalSlots stands for the slots in the hash of the list; empty where they are wrong.
func canonicalSlots(slots *decode.Node, t *template) string {
	if t == nil {
		return ""
	}
	return jsonText(map[string]any{"slots": slots.Written(), "template": t.node.Written()})
}

// listHash is the same for the same tasks in any order.
func listHash(selector *decode.Node, written []string) string {
	slices.Sort(written)
	var who any
	if selector != nil {
		who = selector.Written()
	}
	sum := sha256.Sum256([]byte(jsonText(map[string]any{"selector": who, "tasks": written})))
	return hex.EncodeToString(sum[:8])
}

// jsonText marshals what [node.written] gives: texts, mappings and lists, with which it cannot fail.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
