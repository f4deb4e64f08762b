#!lua flags=allow-oom
-- Puts a record in the place of the one that the caller has read, or shows what
-- stands there. Nothing is written unless the head and the body are those read
-- and, where the caller counts on a lapsed claim, the lease is over by this
-- server's clock.
--
-- ARGV: head without its last byte, and body, as read; head and body to write;
-- milliseconds to keep them; milliseconds that a lapsed claim has left at most,
-- or -1; 1 to carry over what follows the body, or 0 for what is whole
local old = redis.call('GET', KEYS[1]) or ''
local left = redis.call('PTTL', KEYS[1])
local lapsed = tonumber(ARGV[4])
local body = #ARGV[1] + 1
if string.sub(old, 1, 28) .. string.sub(old, 30, body) ~= ARGV[1] or lapsed >= 0 and left > lapsed then
  local time = redis.call('TIME')
  return {left, time[1], time[2], old}
end
local new = ARGV[2]
if ARGV[5] == '1' then
  new = string.sub(new, 1, 28) .. string.sub(old, 29, 29) .. string.sub(new, 30) .. string.sub(old, body + 1)
elseif string.byte(old, 29) == 1 then
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -35) .. 'wake', string.sub(KEYS[1], -33, -2))
end
redis.call('SET', KEYS[1], new, 'PX', ARGV[3])
return old
