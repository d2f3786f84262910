-- KEYS[1] holds the marks. ARGV: the limits of the exclusive and of the shared mark, and what each is raised to.
-- Numbers of Lua are exact only up to 2^53, so tokens are compared as text: without leading zeros.
local function above(a, b)
  return #a > #b or #a == #b and a > b
end
local seen = redis.call('HMGET', KEYS[1], 'exclusive', 'shared')
local exclusive, shared = seen[1] or '0', seen[2] or '0'
if above(exclusive, ARGV[1]) or above(shared, ARGV[2]) then
  return redis.error_reply('OLDTOKEN ' .. exclusive .. ' ' .. shared)
end
if above(ARGV[3], exclusive) then
  redis.call('HSET', KEYS[1], 'exclusive', ARGV[3])
end
if above(ARGV[4], shared) then
  redis.call('HSET', KEYS[1], 'shared', ARGV[4])
end
-- The script of the caller sees its own keys and arguments.
local function from(list, first)
  local rest = {}
  for i = first, #list do
    rest[#rest + 1] = list[i]
  end
  return rest
end
return (function(KEYS, ARGV)
