-- The first thing on each connection: make the journal or recognise it, and note when its server lives anew.
-- A server that was restarted, or a replica that took over, may lack the last commits. So each of its lives begins with
-- a gap in the numbers of commits: a number that a client has seen and that lies in a gap is one that was lost.

local m = redis.call('HMGET', meta, 'id', 'commits', 'sizes', 'run', 'lives', 'format')
if not m[1] then
  if redis.call('EXISTS', calls, rows, index, logs, log, seals, outbox) > 0 then return {'gone'} end
  if p.id == '' then return {'none'} end
  local time = redis.call('TIME')
  redis.call('HSET', meta, 'id', p.id, 'commits', 1, 'rows', 0, 'alerts', 0, 'sizes', sizes(), 'run', p.run,
    'lives', '', 'format', p.format, 'wall', time[1] + time[2] / 1000000, 'steady', 1000,
    'boot', '', 'mono', 0)
  return {'here', p.id, 1, {}, p.format}
end
local now = sizes()
if now ~= m[3] then return {'damaged', m[3], now} end
local lives = m[5]
if m[4] ~= p.run then
  local first = redis.call('HINCRBY', meta, 'commits', p.gap)
  lives = lives .. m[2] .. ' ' .. string.format('%.0f', first) .. '\n'
  redis.call('HSET', meta, 'run', p.run, 'lives', lives)
  m[2] = first
end
local lost = {}
for last, first in string.gmatch(lives, '(%d+) (%d+)\n') do
  if tonumber(last) < p.seen and p.seen < tonumber(first) then
    lost[1], lost[2] = last, string.format('%.0f', p.seen)
    local known = redis.call('HGET', meta, 'lost ' .. last)
    if not known or tonumber(known) < p.seen then redis.call('HSET', meta, 'lost ' .. last, lost[2]) end
  end
end
return {'here', m[1], m[2], lost, m[6]}
