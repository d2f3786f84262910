-- What every script of this package begins with.
-- KEYS: 1 state, 2 gate, 3 documents, 4 ids, 5 groups, 6 revisions, 7 sessions, 8 expiry. All have one hash tag.
-- ARGV: 1 the identity under which the script may run, 2 nodes, 3 the largest revision that the client knows, 4 the
-- master's address as other servers know it (empty: not known).

local function decimal(n)
  return string.format('%.0f', n)
end

local function number(text)
  return tonumber(text or '0') or 0
end

-- now is this server's clock in Unix ms.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- meet notes at which addresses servers have held the data: replicas in sync, and the master. One that has taken the
-- place of another counts besides it, since that may come back. It returns how many servers are connected now. Each
-- address counts once: a replica that comes back is connected twice until the master gives its old link up. A backup
-- over the wire (redis-cli --rdb) has no port, and is never online.
local function meet(replication)
  local met = redis.call('HGET', KEYS[2], 'met') or ' '
  local before, all = met, 0
  local function note(address)
    if not string.find(met, ' ' .. address .. ' ', 1, true) then
      met = met .. address .. ' '
    end
  end
  if ARGV[4] ~= '' then
    note(ARGV[4])
  end
  local linked, online, inSync = 1, 1, {} -- inSync has each address, false until one of its links is online
  for ip, port, state in string.gmatch(replication, '\nslave%d+:ip=([^,]*),port=([1-9]%d*),state=([%a_]+)') do
    local address = ip .. ':' .. port
    if inSync[address] == nil then
      linked, inSync[address] = linked + 1, false
    end
    if state == 'online' and not inSync[address] then
      online, inSync[address] = online + 1, true
      note(address)
    end
  end
  if met ~= before then
    redis.call('HSET', KEYS[2], 'met', met)
  end
  for _ in string.gmatch(met, '%S+') do
    all = all + 1
  end
  all = math.max(all, online)
  if all > number(ARGV[2]) and all > number(redis.call('HGET', KEYS[2], 'seen')) then
    redis.call('HSET', KEYS[2], 'seen', all)
  end
  return linked
end

local now, high

-- begin says why the script must not go on; nil: it may. Every script that may is one that writes, or WAIT would wait
-- for nothing. It writes before all else: where Redis refuses writes, nothing is half done.
local function begin()
  local id, replication = identity()
  if not id then
    return replication
  end
  if id ~= ARGV[1] then
    return {'moved', id}
  end
  redis.call('HINCRBY', KEYS[1], 'writes', 1)
  now, high = clock(), number(redis.call('HGET', KEYS[1], 'high'))
  if number(ARGV[3]) > high then
    high = number(ARGV[3])
    redis.call('HSET', KEYS[1], 'high', ARGV[3])
  end
  local linked = meet(replication)
  if linked > number(ARGV[2]) then
    return {'nodes', decimal(linked)}
  end
end

-- A document is its fields, parted by NUL bytes, and its body. Numbers stay text: Lua's are doubles.
local layout = '^([1-9]%d*)%z([^%z]*)%z(%-?%d+)%z([^%z]*)%z([^%z]*)%z([^%z]*)%z([01])%z([^%z]*)%z(%-?%d+)%z(%d+)%z()'

-- fits says whether the client can read a number: of 64 bits.
local function fits(text)
  local digits = string.gsub(text, '^-', '')
  return #digits < 19 or #digits == 19
    and digits <= (digits == text and '9223372036854775807' or '9223372036854775808')
end

-- parse is nil for what is absent, and for what was edited so that it is no document.
local function parse(raw)
  if not raw then
    return nil
  end
  local d = {raw = raw}
  d.rev, d.writer, d.seq, d.group, d.session, d.reserved, d.suspended, d.state, d.count, d.expires, d.body =
    string.match(raw, layout)
  if not d.rev or #d.rev > 16 or number(d.rev) > 9007199254740992 then
    return nil
  end
  if not (fits(d.seq) and fits(d.count) and fits(d.expires)) then
    return nil
  end
  return d
end

-- padded has revisions in order as texts.
local function padded(rev)
  return string.rep('0', 16 - #rev) .. rev
end
