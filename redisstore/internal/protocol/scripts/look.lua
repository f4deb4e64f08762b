#!lua flags=allow-oom
-- Shows what stands, and how long it still will. It is not declared free of
-- writes on purpose: a replica refuses it, and so nobody reads from one that
-- may lag.
local old = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
return '-' .. struct.pack('<I8', time[1] * 1000000 + time[2]) .. struct.pack('<i8', redis.call('PTTL', KEYS[1])) .. old
