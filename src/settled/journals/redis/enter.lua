-- The first thing on each connection: make the journal or recognise it, and note when its server lives anew.
-- A server that was restarted, or a replica that took over, may lack the last commits. So each of its lives counts its
-- commits from the time on (in microseconds), ahead of all before it: a number that a client has seen, and that lies in
-- the gap between two lives, is one that was lost.

local fresh, run, seen, gap, form = w[1], w[2], tonumber(w[3]), w[4], w[5]
local m = redis.call('HMGET', meta, 'id', 'commits', 'sizes', 'run', 'lives', 'format')
local time = redis.call('TIME')
if not m[1] then
  if redis.call('EXISTS', calls, rows, index, log) > 0 then return {'gone'} end
  if fresh == '' then return {'none'} end
  redis.call('HSET', meta, 'id', fresh, 'commits', 1, 'rows', 0, 'alerts', 0, 'sizes', sizes, 'run', run, 'lives', '',
    'format', form, 'wall', time[1] + time[2] / 1000000, 'steady', 1000, 'boot', '', 'mono', 0)
  return {'here', fresh, 1, {}, form}
end
if sizes ~= m[3] then return {'damaged', m[3], sizes} end
local lives = m[5]
if m[4] ~= run then
  local first = string.format('%.0f', math.max(m[2] + gap, time[1] * 1000000 + time[2]))
  lives = lives .. m[2] .. ' ' .. first .. '\n'
  redis.call('HSET', meta, 'run', run, 'lives', lives, 'commits', first)
  m[2] = first
end
local lost = {}
for last, first in string.gmatch(lives, '(%d+) (%d+)\n') do
  if tonumber(last) < seen and seen < tonumber(first) then
    lost[1], lost[2] = last, string.format('%.0f', seen)
    local known = redis.call('HGET', meta, 'lost ' .. last)
    if not known or tonumber(known) < seen then redis.call('HSET', meta, 'lost ' .. last, lost[2]) end
  end
end
if redis.call('HLEN', meta) > 500 then -- clients that have not written for a day
  local all = redis.call('HGETALL', meta)
  for i = 1, #all, 2 do
    local since = string.sub(all[i], 1, 7) == 'client ' and tonumber(string.match(all[i + 1], '%d+$'))
    if since and since < time[1] - 86400 then redis.call('HDEL', meta, all[i]) end
  end
end
return {'here', m[1], m[2], lost, m[6]}
