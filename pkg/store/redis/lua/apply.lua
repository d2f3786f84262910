-- ARGV: 5 kind, 6 which changes are notified, 7 the channel, 8 the indexes of the kind, 9 for how many ms good
-- replies have come under the identity, as far as this client knows; then five for each change: operation (put, delete
-- or increment), id, revision expected (0: absent), lease of an ownership change in ms (0: none), and the new document
-- or the revision that an increment carries.
-- The reply has two for each change: what became of it, and a text.
local no = begin()
if no then
  return no
end
local kind, notify, channel, indexes = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local grouped, revised = string.find(indexes, 'g', 1, true), string.find(indexes, 'r', 1, true)
local owned, expiring = string.find(indexes, 's', 1, true), string.find(indexes, 'e', 1, true)
local noted = {}

local function move(key, before, after)
  if before == after then
    return
  end
  if before then
    redis.call('ZREM', key, before)
  end
  if after then
    redis.call('ZADD', key, 0, after)
  end
end

local function notable(old, new)
  if notify == 'always' then
    return true
  elseif notify == 'states' then
    return not old or not new or old.state ~= new.state
  elseif notify == 'free' then
    return not new or new.reserved ~= '' or (old and old.session ~= '' and new.session == '')
  end
  return false
end

-- write makes new the document in the place of old; nil is absent.
local function write(id, old, new)
  if new then
    redis.call('HSET', KEYS[3], id, new.raw)
  else
    redis.call('HDEL', KEYS[3], id)
  end
  move(KEYS[4], old and id, new and id)
  if grouped then
    move(KEYS[5], old and old.group .. '\0' .. id, new and new.group .. '\0' .. id)
  end
  if revised then
    move(KEYS[6], old and old.group .. '\0' .. padded(old.rev) .. '\0' .. id,
      new and new.group .. '\0' .. padded(new.rev) .. '\0' .. id)
  end
  if owned then
    move(KEYS[7], old and old.session .. '\0' .. old.suspended .. '\0' .. id,
      new and new.session .. '\0' .. new.suspended .. '\0' .. id)
  end
  if expiring then
    local before, after = old and old.expires or '0', new and new.expires or '0'
    if after ~= '0' then
      redis.call('ZADD', KEYS[8], after, id)
    elseif before ~= '0' then
      redis.call('ZREM', KEYS[8], id)
    end
  end
  if notable(old, new) then
    noted[#noted + 1] = id
    noted[#noted + 1] = (new or old).group
    noted[#noted + 1] = new and new.reserved or ''
  end
end

local gate = redis.call('HMGET', KEYS[2], 'identity', 'lease', 'nodes', 'seen', 'high', 'met', 'waitedAt', 'waited')

-- barred says why the gate is closed to this client whatever happens; nil: it is not.
local function barred(lease)
  if gate[3] and gate[3] ~= ARGV[2] then
    return 'nodes ' .. gate[3]
  elseif number(gate[4]) > number(ARGV[2]) then
    return 'seen ' .. gate[4] .. (gate[6] or '')
  elseif gate[2] and gate[2] ~= lease then
    return 'lease ' .. gate[2]
  end
end

-- open opens the gate where it is closed and good replies have come for a lease.
local function open(lease)
  if gate[1] == ARGV[1] or number(ARGV[9]) < number(lease) then
    return
  end
  local above = math.max(number(gate[5]), high, now)
  redis.call('HSET', KEYS[2], 'identity', ARGV[1], 'lease', lease, 'nodes', ARGV[2], 'high', decimal(above))
  gate[1], gate[2], gate[3], gate[5] = ARGV[1], lease, ARGV[2], decimal(above)
  if above > high then -- the next Floor exceeds it, however far this clock is behind the one before
    high = above
    redis.call('HSET', KEYS[1], 'high', decimal(above))
  end
end

-- closed says why an ownership change must not happen now; nil: it may. The second result is the revision that the
-- change must exceed.
local function closed(lease)
  local why = barred(lease)
  if why then
    return why
  end
  open(lease)
  if gate[1] ~= ARGV[1] then
    return 'gate'
  end
  if not gate[2] then -- init has opened it, which knows of no lease
    gate[2] = lease
    redis.call('HSET', KEYS[2], 'lease', lease)
  end
  return nil, number(gate[5])
end

-- After a failover any write opens the gate again, such as a heartbeat: a process that begins later need not wait.
if gate[2] and not barred(gate[2]) then
  open(gate[2])
end

-- While it is closed it keeps for how long good replies have come. A process that begins later counts on from there, as
-- of when it has read that: the time of two that wait at once does not add up.
local waitedAt = ARGV[1] .. ' ' .. ARGV[2]
if gate[1] ~= ARGV[1] and number(ARGV[9]) > (gate[7] == waitedAt and number(gate[8]) or 0) then
  redis.call('HSET', KEYS[2], 'waitedAt', waitedAt, 'waited', ARGV[9])
end

local function incremented(old, carried)
  local d = old or {rev = '0', group = '', session = '', reserved = '', suspended = '0', state = '', count = '0',
    expires = '0', raw = '', body = 1}
  local rev, count = number(d.rev), number(d.count)
  if rev >= 9007199254740992 or count < 0 or count >= 9007199254740992 then
    rev, count = math.max(now, high + 1), math.max(now, high + 1)
  end
  local header = {decimal(math.max(rev + 1, number(carried))), '', '0', d.group, d.session, d.reserved, d.suspended,
    d.state, decimal(count + 1), d.expires, ''}
  return table.concat(header, '\0') .. string.sub(d.raw, d.body)
end

-- perform is one change: what became of it, and a text.
local function perform(op, id, ifRev, lease, new)
  local old = parse(redis.call('HGET', KEYS[3], id))
  if op == 'increment' then
    write(id, old, parse(incremented(old, new)))
    return 'applied', ''
  end
  local doc = op == 'put' and parse(new) or nil
  if lease ~= '0' then
    local why, above = closed(lease)
    if why then
      return 'closed', why
    elseif number(doc.rev) <= above then
      return 'refused', old and old.raw
    end
  end
  if ifRev == (old and old.rev or '0') then
    write(id, old, doc)
    return 'applied', ''
  end
  return 'found', old and old.raw
end

local out = {'ok', decimal(now), decimal(high)}
for i = 10, #ARGV, 5 do
  local status, text = perform(unpack(ARGV, i, i + 4))
  out[#out + 1] = status
  out[#out + 1] = text or ''
end
out[3] = decimal(high)
if #noted > 0 then
  local seq = redis.pcall('HINCRBY', KEYS[1], 'changes', 1)
  if type(seq) ~= 'number' then -- somebody edited it; watches look at everything when it is another one
    seq = now
    redis.pcall('HSET', KEYS[1], 'changes', decimal(seq))
  end
  redis.pcall('PUBLISH', channel, decimal(seq) .. '\0' .. kind .. '\0' .. table.concat(noted, '\0'))
end
return out
