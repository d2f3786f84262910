-- KEYS: 4 ids of sessions, 9 ids of locks. It opens the gate of a database that is new. The last word of the reply is
-- what it found: new, open (the gate, under this identity), or used. The first ownership change sets the lease.
local no = begin()
if no then
  return no
end
local function holds(ids)
  return #redis.call('ZRANGEBYLEX', ids, '-', '+', 'LIMIT', 0, 1) > 0
end
local gate, found = redis.call('HGET', KEYS[2], 'identity'), 'used'
if gate == ARGV[1] then
  found = 'open'
elseif not gate and not holds(KEYS[4]) and not holds(KEYS[9]) then
  found, high = 'new', math.max(high, now)
  redis.call('HSET', KEYS[1], 'high', decimal(high))
  redis.call('HSET', KEYS[2], 'identity', ARGV[1], 'nodes', ARGV[2], 'high', decimal(high))
end
return {'ok', decimal(now), decimal(high), found}
