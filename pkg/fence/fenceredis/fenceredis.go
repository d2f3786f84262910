// Package fenceredis is a fence in Redis, with go-redis: one script compares the token, remembers it and does the
// caller's write. Scripts of Redis run alone.
//
//	var save = fenceredis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
//
//	err := save.Run(ctx, rdb, fence.Exclusive("reports/monthly", lease.Token()), []string{"report"}, text).Err()
//
// The marks of a key are a hash, under [Key]. It does not expire. In a cluster all keys of a script are in one slot:
// give them the same hash tag, as in "{reports}/monthly" and "{reports}:total".
//
// A failover of Redis may lose acknowledged writes. It loses marks together with the work that they were raised for, so
// an older owner may write there again. Where that must not be, keep the data in another store. The server must not
// evict the hashes (maxmemory-policy noeviction).
package fenceredis

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/fence"
)

//go:embed fence.lua
var before string

// after ends the function that before begins, and calls it.
const after = "\nend)(from(KEYS, 2), from(ARGV, 5))\n"

// Key is where Redis keeps the marks of a key.
func Key(key string) string { return "fence:" + key }

// Script is a write that is done under a claim. It may be used concurrently, with any number of servers.
type Script struct{ script *redis.Script }

// NewScript makes one of Lua, as EVAL takes it: with KEYS, ARGV, and what it returns. Redis does not undo what a script
// has done before it fails: the token counts as seen then, too.
func NewScript(lua string) *Script { return &Script{redis.NewScript(before + lua + after)} }

// Run runs the script if the claim passes, in one round trip. The error wraps [fence.ErrOld] when another owner has
// followed, [fence.ErrInvalid] when the claim is malformed, else it is that of the script, or of Redis.
func (s *Script) Run(ctx context.Context, rdb redis.Scripter, c fence.Claim, keys []string, args ...any) *redis.Cmd {
	if err := c.Validate(); err != nil {
		return failed(ctx, err)
	}
	limits, own := c.Limits(), c.Marks()
	keys = append([]string{Key(c.Key)}, keys...)
	args = append([]any{limits.Exclusive, limits.Shared, own.Exclusive, own.Shared}, args...)
	reply := s.script.Run(ctx, rdb, keys, args...)
	if err := reply.Err(); err != nil {
		reply.SetErr(translated(err, c))
	}
	return reply
}

var nothing = NewScript(`return 1`)

// Check passes a claim and does nothing. Something newer may pass at once, so the work goes through a [Script] all the
// same. It is for those who want to be refused before they begin:
//
//	fence.CheckFirst(func(ctx context.Context, c fence.Claim) error { return fenceredis.Check(ctx, rdb, c) })
func Check(ctx context.Context, rdb redis.Scripter, c fence.Claim) error {
	return nothing.Run(ctx, rdb, c, nil).Err()
}

func failed(ctx context.Context, err error) *redis.Cmd {
	reply := redis.NewCmd(ctx)
	reply.SetErr(err)
	return reply
}

// translated makes a refusal of the script an [*fence.OldError].
func translated(err error, c fence.Claim) error {
	if seen, refused := strings.CutPrefix(err.Error(), "OLDTOKEN "); refused {
		old := &fence.OldError{Claim: c}
		if _, unread := fmt.Sscan(seen, &old.Seen.Exclusive, &old.Seen.Shared); unread == nil {
			return old
		}
	}
	return fmt.Errorf("%s: %w", c, err)
}
