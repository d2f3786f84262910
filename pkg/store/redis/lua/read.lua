-- ARGV: 5… ids. The documents as they are, or nil.
local no = begin()
if no then
  return no
end
local out = {'ok', decimal(now), decimal(high)}
if #ARGV > 4 then
  for i, raw in ipairs(redis.call('HMGET', KEYS[3], unpack(ARGV, 5))) do
    out[3 + i] = raw
  end
end
return out
