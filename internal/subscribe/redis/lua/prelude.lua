-- Numbers are compared as texts: Lua's are exact to 2^53 only.
local function less(a, b)
  return #a < #b or #a == #b and a < b
end

-- The error that says who owns the group instead, or nil. KEYS[1] is the owner's hash.
local function refused(task, token)
  local owner = redis.call('HMGET', KEYS[1], 'task', 'token')
  if not owner[2] then
    return redis.error_reply('NOOWNER')
  elseif owner[1] ~= task then
    return redis.error_reply('OTHERTASK ' .. owner[1])
  elseif owner[2] ~= token then
    return redis.error_reply('OTHERTOKEN ' .. owner[2])
  end
end

-- Whether the ID a is before b.
local function before(a, b)
  local ams, aseq = string.match(a, '^(%d+)-(%d+)$')
  local bms, bseq = string.match(b, '^(%d+)-(%d+)$')
  return less(ams, bms) or ams == bms and less(aseq, bseq)
end

-- The error that says that entries after the ID last are gone, or nil. Up to it, read entries had been added: a
-- negative number says that this is not known. Fewer that were removed are those of a stream that was made again.
local function gap(stream, last, read)
  local info, list = {}, redis.call('XINFO', 'STREAM', stream)
  for i = 1, #list, 2 do
    info[list[i]] = list[i + 1]
  end
  local newest = info['last-generated-id']
  local behind = before(last, newest)
  local whole = not behind or info['length'] > 0 and not before(last, info['recorded-first-entry-id'])
  local removed = info['entries-added'] - info['length']
  local known = math.max(tonumber(read), 0)
  if before(newest, last) or info['entries-added'] < known or not whole and removed ~= known then
    return redis.error_reply('GAP')
  end
end
