#!lua flags=allow-oom
-- Lets the claim of a token hold from now on. The lease ends a fixed time before
-- the key does, so that moving the key's end moves both.
--
-- ARGV: version, state and token of the claim; milliseconds, 0 gives the claim up;
-- channel to wake
local old = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local clock = struct.pack('<I8', time[1] * 1000000 + time[2])
if string.sub(old, 1, 18) ~= ARGV[1] then
  return '-' .. clock .. struct.pack('<i8', redis.call('PTTL', KEYS[1])) .. old
end
redis.call('PEXPIRE', KEYS[1], struct.unpack('<I6', old, 19) + ARGV[2])
if ARGV[2] == '0' and string.byte(old, 29) == 1 then
  redis.call('PUBLISH', ARGV[3], string.sub(KEYS[1], -33, -2))
end
return '+' .. clock .. old
