#!lua flags=allow-oom
-- Ends the claim of a token with a result. What follows the head stays, and is
-- shown, so that the caller can see that it was whole. A full server refuses no
-- result: the work is done, and forgetting it would run it twice.
--
-- ARGV: version, state and token of the claim; head to write; result as kept; how long to
-- keep it, and to remember the key, in milliseconds; channel to wake
local old = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local clock = struct.pack('<I8', time[1] * 1000000 + time[2])
if string.sub(old, 1, 18) ~= ARGV[1] then
  return '-' .. clock .. struct.pack('<i8', redis.call('PTTL', KEYS[1])) .. old
end
local over = struct.pack('<I6', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[4])
redis.call('SET', KEYS[1], ARGV[2] .. string.sub(old, 30) .. over .. over .. ARGV[3], 'PX', ARGV[4] + ARGV[5])
if string.byte(old, 29) == 1 then
  redis.call('PUBLISH', ARGV[6], string.sub(KEYS[1], -33, -2))
end
return '+' .. clock .. old
