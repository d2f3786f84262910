-- ARGV: 5 the version of the layout, 6 the channel. It marks an empty database, and uses every command that later
-- scripts need: a right that is missing shows now.
local no = begin()
if no then
  return no
end
redis.call('HSETNX', KEYS[1], 'schema', ARGV[5])
redis.call('HMGET', KEYS[3], '')
redis.call('HDEL', KEYS[3], '')
redis.call('HSET', KEYS[2], 'probe', '1')
redis.call('HDEL', KEYS[2], 'probe')
redis.call('ZADD', KEYS[4], 0, '')
redis.call('ZREM', KEYS[4], '')
redis.call('ZRANGEBYLEX', KEYS[4], '[', '(', 'LIMIT', 0, 1)
redis.call('ZREVRANGEBYLEX', KEYS[4], '(', '[', 'LIMIT', 0, 1)
redis.call('ZRANGEBYSCORE', KEYS[8], '(0', '0')
local sent = redis.pcall('PUBLISH', ARGV[6], '')
local silent = ''
if type(sent) == 'table' and sent.err then
  silent = sent.err
end
return {'ok', decimal(now), decimal(high), redis.call('HGET', KEYS[1], 'schema'), silent}
