#!lua flags=allow-oom
-- Ends the claim of a token with a result. What follows the head stays. A full
-- server refuses no result: the work is done, and forgetting it would run it
-- twice.
--
-- Every script that writes answers with the record as it stood, so that the
-- caller sees that it was whole, or with a list that shows what stands instead.
--
-- ARGV: version, state and token of the claim; head to write; result as kept;
-- milliseconds to keep them
local old = redis.call('GET', KEYS[1]) or ''
if string.find(old, ARGV[1], 1, true) ~= 1 then
  local time = redis.call('TIME')
  return {redis.call('PTTL', KEYS[1]), time[1], time[2], old}
end
redis.call('SET', KEYS[1], ARGV[2] .. string.sub(old, 30) .. ARGV[3], 'PX', ARGV[4])
if string.byte(old, 29) == 1 then
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -35) .. 'wake', string.sub(KEYS[1], -33, -2))
end
return old
