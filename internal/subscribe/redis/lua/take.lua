-- Gives entries that the group has not given yet to the owner, unless some before them are gone.
-- KEYS: the owner's hash, the stream. ARGV: task, token, group, consumer, last, read, count.
local no = refused(ARGV[1], ARGV[2]) or gap(KEYS[2], ARGV[5], ARGV[6])
if no then
  return no
end
local given = redis.call('XREADGROUP', 'GROUP', ARGV[3], ARGV[4], 'COUNT', ARGV[7], 'STREAMS', KEYS[2], '>')
return given and given[1][2] or {}
