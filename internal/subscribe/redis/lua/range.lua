-- Gives entries after a position, unless some before them are gone.
-- KEYS: the stream. ARGV: last, read, count.
return gap(KEYS[1], ARGV[1], ARGV[2]) or
  redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[3])
