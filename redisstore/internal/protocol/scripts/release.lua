#!lua flags=allow-oom
-- Frees the claim of a token. What follows the head stays, until the window
-- ends as it would have.
--
-- ARGV: version, state and token of the claim; head to write
local old = redis.call('GET', KEYS[1]) or ''
if string.find(old, ARGV[1], 1, true) ~= 1 then
  local time = redis.call('TIME')
  return {redis.call('PTTL', KEYS[1]), time[1], time[2], old}
end
redis.call('SET', KEYS[1], ARGV[2] .. string.sub(old, 30), 'KEEPTTL')
if string.byte(old, 29) == 1 then
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -35) .. 'wake', string.sub(KEYS[1], -33, -2))
end
return old
