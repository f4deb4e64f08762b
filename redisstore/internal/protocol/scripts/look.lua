#!lua flags=allow-oom
-- Shows what stands, and how long it still will. It is not declared free of
-- writes on purpose: a replica refuses it, and so nobody reads from one that
-- may lag.
local time = redis.call('TIME')
return {redis.call('PTTL', KEYS[1]), time[1], time[2], redis.call('GET', KEYS[1]) or ''}
