-- Runs a command for the owner of a group.
-- KEYS: the owner's hash, and the key that the command changes. ARGV: task, token, and the command.
return refused(ARGV[1], ARGV[2]) or redis.call(unpack(ARGV, 3))
