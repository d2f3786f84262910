-- ARGV: 5 plan, 6 group, 7 least revision, 8 from, 9 to, 10 unsuspended (1), 11 expired by, 12 limit (0: none),
-- 13 reverse (1), 14 no body (1), 15 count only (1), 16 where the page before ended, then three lists, each with its
-- length before it: sessions, other sessions, states.
-- The reply: how many entries of indexes were looked at, how many documents match, where this page ends (empty: it was
-- the last), and id and document by turns. What is in the place of a document and is none is among them, beyond the
-- limit.
local id, why = identity()
if not id then
  return why
elseif id ~= ARGV[1] then
  return {'moved', id}
end
local pageSize, scan = 1000, 2000
local plan, group, least, from, to = ARGV[5], ARGV[6], number(ARGV[7]), ARGV[8], ARGV[9]
local unsuspended, expired, limit, reverse = ARGV[10] == '1', number(ARGV[11]), number(ARGV[12]), ARGV[13] == '1'
local bare, count, cursor = ARGV[14] == '1', ARGV[15] == '1', ARGV[16]
local place = 17
local function set()
  local n, all = number(ARGV[place]), nil
  for i = place + 1, place + n do
    all = all or {}
    all[ARGV[i]] = true
  end
  place = place + n + 1
  return all
end
local sessions, others, states = set(), set(), set()

local function within(key)
  return key >= from and (to == '' or key < to)
end

local function matches(key, d)
  return within(key) and (group == '' or d.group == group) and (not sessions or sessions[d.session])
    and (not others or not others[d.session]) and (not states or states[d.state])
    and number(d.rev) >= least and not (unsuspended and d.suspended == '1')
    and (expired == 0 or (d.expires ~= '0' and number(d.expires) <= expired))
end

local looked, total, found, seen = 0, 0, {}, {}

-- take reads the documents with these ids and keeps those that match.
local function take(ids)
  looked = looked + #ids
  for first = 1, #ids, pageSize do
    local last = math.min(first + pageSize - 1, #ids)
    for i, raw in ipairs(redis.call('HMGET', KEYS[3], unpack(ids, first, last))) do
      local key, d = ids[first + i - 1], parse(raw)
      if d and not seen[key] and matches(key, d) then
        seen[key], total = true, total + 1
        if not count then
          found[#found + 1] = key
          found[#found + 1] = bare and string.sub(raw, 1, d.body - 1) or raw
        end
      elseif raw and not d and not count and within(key) then
        found[#found + 1] = key
        found[#found + 1] = raw
      end
    end
  end
end

-- ordered goes through an index whose entries are a prefix and an id, in order of id, from where the page before ended.
local function ordered(key, prefix, above)
  local low, top = '[' .. prefix .. from, to ~= '' and '(' .. prefix .. to or above
  if cursor ~= '' then
    if reverse then
      top = '(' .. prefix .. cursor
    else
      low = '(' .. prefix .. cursor
    end
  end
  while looked < scan do
    local most = pageSize
    if limit > 0 and not count then
      most = math.min(pageSize, limit - total)
    end
    local entries
    if reverse then
      entries = redis.call('ZREVRANGEBYLEX', key, top, low, 'LIMIT', 0, most)
    else
      entries = redis.call('ZRANGEBYLEX', key, low, top, 'LIMIT', 0, most)
    end
    local last = entries[#entries]
    for i, entry in ipairs(entries) do
      entries[i] = string.sub(entry, #prefix + 1)
    end
    take(entries)
    if #entries < most or (limit > 0 and not count and total >= limit) then
      return ''
    end
    cursor = string.sub(last, #prefix + 1)
    if reverse then
      top = '(' .. last
    else
      low = '(' .. last
    end
  end
  return cursor
end

-- owned is the locks of one session.
local function owned(session)
  local top = '(' .. session .. '\1'
  local low = '[' .. session .. '\0'
  if unsuspended then
    low, top = low .. '0\0', '(' .. session .. '\0' .. '1'
  end
  local ids = redis.call('ZRANGEBYLEX', KEYS[7], low, top)
  for i, entry in ipairs(ids) do
    ids[i] = string.sub(entry, #session + 4)
  end
  take(ids)
end

-- byOthers skips from session to session, so that locks of those left out are not looked at.
local function byOthers()
  local low = '-'
  while true do
    local entry = redis.call('ZRANGEBYLEX', KEYS[7], low, '+', 'LIMIT', 0, 1)[1]
    if not entry then
      return
    end
    looked = looked + 1
    local session = string.match(entry, '^[^%z]*')
    if not others[session] then
      owned(session)
    end
    low = '[' .. session .. '\1'
  end
end

local rest = ''
if plan == 'ids' then
  rest = ordered(KEYS[4], '', '+')
elseif plan == 'groups' then
  rest = ordered(KEYS[5], group .. '\0', '(' .. group .. '\1')
elseif plan == 'sessions' then
  for session in pairs(sessions) do
    owned(session)
  end
elseif plan == 'others' then
  byOthers()
elseif plan == 'revisions' then
  local ids = redis.call('ZRANGEBYLEX', KEYS[6], '[' .. group .. '\0' .. padded(ARGV[7]), '(' .. group .. '\1')
  for i, entry in ipairs(ids) do
    ids[i] = string.sub(entry, #group + 19)
  end
  take(ids)
else
  take(redis.call('ZRANGEBYSCORE', KEYS[8], '(0', decimal(expired)))
end
local out = {'ok', decimal(clock()), redis.call('HGET', KEYS[1], 'high') or '0', decimal(looked), decimal(total), rest}
for i, text in ipairs(found) do
  out[6 + i] = text
end
return out
