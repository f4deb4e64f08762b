#!lua flags=allow-oom
-- Replaces the steps under the claim of a token. They stand behind the body,
-- which begins with its length.
--
-- ARGV: version, state and token of the claim; steps as kept
local old = redis.call('GET', KEYS[1]) or ''
if string.find(old, ARGV[1], 1, true) ~= 1 or #old < 33 then
  local time = redis.call('TIME')
  return {redis.call('PTTL', KEYS[1]), time[1], time[2], old}
end
local body = 29 + 4 + struct.unpack('<I4', old, 30) + 4
redis.call('SET', KEYS[1], string.sub(old, 1, body) .. ARGV[2], 'KEEPTTL')
return old
