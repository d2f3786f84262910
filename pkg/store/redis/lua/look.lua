-- KEYS: 1 gate. For the second look: the identity, a space, and how many servers have held the data where they are too
-- many. Empty where there is no identity.
local id = identity()
return id and id .. ' ' .. (redis.call('HGET', KEYS[1], 'seen') or '') or ''
