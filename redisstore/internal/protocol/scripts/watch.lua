#!lua flags=allow-oom
-- Marks a claim as waited for, so that its end is published; answers with an
-- empty list where no claim stands that could end. The mark is a hint, and the
-- only byte of a record without a checksum.
--
-- ARGV: version and state of a claim
local head = redis.call('GETRANGE', KEYS[1], 0, 28)
if #head < 29 or string.sub(head, 1, 2) ~= ARGV[1] then
  return {}
end
if string.byte(head, 29) == 0 then
  redis.call('SETRANGE', KEYS[1], 28, '\1')
end
return ''
