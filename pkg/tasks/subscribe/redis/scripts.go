package redis

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/prelude.lua
	prelude string
	//go:embed lua/own.lua
	own string
	//go:embed lua/fenced.lua
	fenced string
	//go:embed lua/take.lua
	take string
	//go:embed lua/range.lua
	ranged string

	ownScript    = redis.NewScript(prelude + own)
	fencedScript = redis.NewScript(prelude + fenced)
	takeScript   = redis.NewScript(prelude + take)
	rangeScript  = redis.NewScript(prelude + ranged)
)
