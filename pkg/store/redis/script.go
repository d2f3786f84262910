package redis

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/identity.lua
	identityText string
	//go:embed lua/prelude.lua
	preludeText string
	//go:embed lua/look.lua
	lookText string
	//go:embed lua/setup.lua
	setupText string
	//go:embed lua/init.lua
	initText string
	//go:embed lua/read.lua
	readText string
	//go:embed lua/list.lua
	listText string
	//go:embed lua/apply.lua
	applyText string
	//go:embed lua/poll.lua
	pollText string

	setupScript = newScript(setupText)
	initScript  = newScript(initText)
	readScript  = newScript(readText)
	listScript  = newScript(listText)
	applyScript = newScript(applyText)
	pollScript  = newScript(pollText)
)

// look is the second look, always sent whole: a server that does not know its hash would answer too late.
func look(keys keyspace) []any { return []any{"EVAL", identityText + lookText, 1, keys.gate()} }

// script is a Lua script with its hash, by which a server that has run it before finds it.
type script struct{ text, hash string }

func newScript(body string) script {
	text := identityText + preludeText + body
	return script{text, redis.NewScript(text).Hash()}
}

// command is the script as a command: by its hash, or whole.
func (s script) command(whole bool, keys []string, args []any) []any {
	name, what := "EVALSHA", s.hash
	if whole {
		name, what = "EVAL", s.text
	}
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, what, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return append(all, args...)
}
