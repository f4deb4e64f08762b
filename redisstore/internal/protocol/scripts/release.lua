#!lua flags=allow-oom
-- Frees the claim of a token. What follows the head stays, until the window
-- ends as it would have.
--
-- ARGV: version, state and token of the claim; head to write; channel to wake
local old = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local clock = struct.pack('<I8', time[1] * 1000000 + time[2])
if string.sub(old, 1, 18) ~= ARGV[1] then
  return '-' .. clock .. struct.pack('<i8', redis.call('PTTL', KEYS[1])) .. old
end
redis.call('SET', KEYS[1], ARGV[2] .. string.sub(old, 30), 'KEEPTTL')
if string.byte(old, 29) == 1 then
  redis.call('PUBLISH', ARGV[3], string.sub(KEYS[1], -33, -2))
end
return '+' .. clock .. old
