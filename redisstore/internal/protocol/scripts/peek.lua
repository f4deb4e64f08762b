#!lua flags=allow-oom
-- Shows what stands without its result, for lists: head, body and steps.
local head = redis.call('GETRANGE', KEYS[1], 0, 32)
local time = redis.call('TIME')
local old = ''
if #head == 33 then
  local body = 33 + struct.unpack('<I4', head, 30) + 4
  local steps = redis.call('GETRANGE', KEYS[1], body, body + 3)
  if #steps == 4 then
    old = redis.call('GETRANGE', KEYS[1], 0, body + 4 + struct.unpack('<I4', steps) + 4 - 1)
  end
end
return {redis.call('PTTL', KEYS[1]), time[1], time[2], old}
