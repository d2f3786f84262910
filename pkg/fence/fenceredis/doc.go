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
