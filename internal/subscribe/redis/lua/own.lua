-- Makes a task with a token the owner of a group, unless a newer one is. Says whether the group had an owner before.
-- KEYS: the owner's hash, the stream. ARGV: task, token.
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'stream' then
  return redis.error_reply('NOSTREAM ' .. kind)
end
local owner = redis.call('HMGET', KEYS[1], 'task', 'token')
if owner[1] and owner[1] ~= ARGV[1] then
  return redis.error_reply('OTHERTASK ' .. owner[1])
elseif owner[2] and less(ARGV[2], owner[2]) then
  return redis.error_reply('OTHERTOKEN ' .. owner[2])
end
redis.call('HSET', KEYS[1], 'task', ARGV[1], 'token', ARGV[2])
return owner[2] and 1 or 0
