-- KEYS: 1 gate. For the second look: the identity, how many servers have held the data where they are too many (else
-- nothing), and for how many ms good replies have come under which identity, each after a space. Empty where there is
-- no identity.
local id = identity()
local gate = redis.call('HMGET', KEYS[1], 'seen', 'waited', 'waitedAt')
return id and id .. ' ' .. (gate[1] or '') .. ' ' .. (gate[2] or '') .. ' ' .. (gate[3] or '') or ''
