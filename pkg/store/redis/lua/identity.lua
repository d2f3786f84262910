-- identity is run_id/master_replid/sync_full+sync_partial_ok of a master, and what it says of its replicas. Of others
-- it is nil and a reply that says why.
local function identity()
  local replication = redis.call('INFO', 'replication')
  local role = string.match(replication, '\nrole:(%a+)')
  local replid = string.match(replication, '\nmaster_replid:(%w+)')
  local replicas = string.match(replication, '\nconnected_slaves:(%d+)')
  local run = string.match(redis.call('INFO', 'server'), '\nrun_id:(%w+)')
  local stats = redis.call('INFO', 'stats')
  local full = string.match(stats, '\nsync_full:(%d+)')
  local partial = string.match(stats, '\nsync_partial_ok:(%d+)')
  if not (role and replid and replicas and run and full and partial) then
    return nil, {'hidden'}
  end
  if role ~= 'master' then
    return nil, {'replica'}
  end
  return run .. '/' .. replid .. '/' .. full .. '+' .. partial, replication
end
