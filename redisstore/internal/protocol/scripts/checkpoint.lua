#!lua flags=allow-oom
-- Replaces the steps under the claim of a token. They stand behind the body,
-- which begins with its length.
--
-- ARGV: version, state and token of the claim; steps as kept
local old = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local clock = struct.pack('<I8', time[1] * 1000000 + time[2])
if string.sub(old, 1, 18) ~= ARGV[1] or #old < 33 then
  return '-' .. clock .. struct.pack('<i8', redis.call('PTTL', KEYS[1])) .. old
end
local body = 29 + 4 + struct.unpack('<I4', old, 30) + 4
redis.call('SET', KEYS[1], string.sub(old, 1, body) .. ARGV[2], 'KEEPTTL')
return '+' .. clock .. old
