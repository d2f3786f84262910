-- ARGV: 4… ids. The documents as they are, or nil.
local no = begin()
if no then
  return no
end
local out = {'ok', decimal(now), decimal(high)}
if #ARGV > 3 then
  for i, raw in ipairs(redis.call('HMGET', KEYS[3], unpack(ARGV, 4))) do
    out[3 + i] = raw
  end
end
return out
