#!lua flags=allow-oom
-- Lets the claim of a token hold from now on. The lease ends a fixed time before
-- the key does, so that moving the key's end moves both.
--
-- ARGV: version, state and token of the claim; milliseconds, 0 gives the claim up
local old = redis.call('GET', KEYS[1]) or ''
if string.find(old, ARGV[1], 1, true) ~= 1 then
  local time = redis.call('TIME')
  return {redis.call('PTTL', KEYS[1]), time[1], time[2], old}
end
redis.call('PEXPIRE', KEYS[1], struct.unpack('<I6', old, 19) + ARGV[2])
if ARGV[2] ~= '0' then
  return old
end
if string.byte(old, 29) == 1 then
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -35) .. 'wake', string.sub(KEYS[1], -33, -2))
end
return old
