#!lua flags=allow-oom
-- Ends the claim of a token with a result. A full server refuses no result: the
-- work is done, and forgetting it would run it twice.
--
-- Mostly the claim stands as its owner wrote it, and what comes next is known to
-- its last byte. Where it does not, because somebody waits, or steps were kept,
-- or another process completes, what follows the head stays as it is.
--
-- Every script that writes answers with the record as it stood, so that the
-- caller sees that it was whole, or with a list that shows what stands instead.
-- Here 1 says that it was what the caller wrote.
--
-- ARGV: the claim as written, or its version, state and token; the record to
-- write, or its head and result; milliseconds to keep it; where in it the
-- result begins
local old = redis.call('GET', KEYS[1]) or ''
if old == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
if string.sub(old, 1, 18) ~= string.sub(ARGV[1], 1, 18) then
  local time = redis.call('TIME')
  return {redis.call('PTTL', KEYS[1]), time[1], time[2], old}
end
redis.call('SET', KEYS[1], string.sub(ARGV[2], 1, 29) .. string.sub(old, 30) .. string.sub(ARGV[2], ARGV[4]), 'PX', ARGV[3])
if string.byte(old, 29) == 1 then
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -35) .. 'wake', string.sub(KEYS[1], -33, -2))
end
return old
