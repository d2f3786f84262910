-- The number of the last change that was notified.
local id, why = identity()
if not id then
  return why
elseif id ~= ARGV[1] then
  return {'moved', id}
end
return {'ok', decimal(clock()), redis.call('HGET', KEYS[1], 'high') or '0',
  redis.call('HGET', KEYS[1], 'changes') or '0'}
