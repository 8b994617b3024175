-- One transaction: if all that was looked at still stands, write; else, or if only asked to look, show what stands.

local m = redis.call('HMGET', meta, 'id', 'commits', 'sizes', 'wall', 'steady', 'boot', 'mono')
local wrong = trouble(m)
if wrong then return wrong end

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local head = {time[1], time[2], m[4], m[5], m[6], m[7]}

local function version(value) return value and string.sub(value, 1, 16) or '' end

local function members(prefix)
  return redis.call('ZRANGEBYLEX', index, '[' .. prefix, '(' .. prefix .. '\255')
end

-- What is asked for lies first, then what must stand, then what is to be written; n holds how many there are of each.
local n = p.n
local at = 1
local function take()
  at = at + 1
  return ARGV[at]
end
local first_condition = 1 + n.ids + n.fields + n.prefixes

local function stands()
  if p.about then -- the client's guess of the time: it may be a little late, and earlier by what the way here took
    local claimed = tonumber(m[5]) + now - tonumber(m[4])
    if p.about - claimed > 0.25 or claimed - p.about > 1 then return false end
  end
  at = first_condition
  for _ = 1, n.calls do
    local id = take()
    if version(redis.call('HGET', calls, id)) ~= take() then return false end
  end
  for _ = 1, n.rows do
    local field = take()
    if version(redis.call('HGET', rows, field)) ~= take() then return false end
  end
  for _ = 1, n.ranges do
    local prefix = take()
    if table.concat(members(prefix), '\n') ~= take() then return false end
  end
  return true
end

local function write()
  at = first_condition + 2 * (n.calls + n.rows + n.ranges)
  local number = string.format('%016.0f', redis.call('HINCRBY', meta, 'commits', 1))
  local places = {}
  for i = 1, n.put do
    local id, place, record = take(), take(), take()
    if place == '' then place = number .. string.format('%04d', i) end
    places[id] = place
    redis.call('HSET', calls, id, number .. place .. record)
  end
  for _ = 1, n.drop do redis.call('HDEL', calls, take()) end
  for _ = 1, n.set do
    local field, value = take(), take()
    if value == '' then redis.call('HDEL', rows, field) else redis.call('HSET', rows, field, number .. value) end
  end
  for _ = 1, n.leave do redis.call('ZREM', index, take()) end
  for _ = 1, n.enter do redis.call('ZADD', index, 0, take()) end
  for i = 1, n.new do -- members of what this very commit makes: its place is known only here
    local name, prefixes = take(), take()
    local place = places[name] or (number .. string.format('%04d', i))
    for from = 1, #prefixes, 16 do
      redis.call('ZADD', index, 0, string.sub(prefixes, from, from + 15) .. place .. name)
    end
  end
  if n.log > 0 then
    local last = redis.call('HINCRBY', meta, 'rows', n.log) - n.log
    for i = 1, n.log do
      local id, row = take(), string.format('%.0f', last + i)
      redis.call('XADD', log, row .. '-0', 'r', take())
      redis.call('HSET', logs, id, (redis.call('HGET', logs, id) or '') .. row .. ' ')
    end
  end
  for _ = 1, n.alerts do redis.call('HSET', outbox, redis.call('HINCRBY', meta, 'alerts', 1), take()) end
  for _ = 1, n.told do redis.call('HDEL', outbox, take()) end
  for _ = 1, n.seals do redis.call('RPUSH', seals, take()) end
  local clock = p.clock
  if clock and clock[5] == tonumber(m[4]) and clock[6] == tonumber(m[5]) then
    redis.call('HSET', meta, 'wall', clock[1], 'steady', clock[2], 'boot', clock[3], 'mono', clock[4])
  end
  redis.call('HSET', clients, p.client, string.format('%.0f ', p.number) .. time[1])
  redis.call('HSET', meta, 'sizes', sizes())
  return number
end

if p.number then
  local last = redis.call('HGET', clients, p.client)
  if last and tonumber(string.match(last, '^%d+')) >= p.number then return {'done', m[2], head} end
  if stands() then return {'written', write(), head} end
end

at = 1
local found, seen = {}, {}
local function show(id)
  if not seen[id] then
    seen[id] = true
    found[#found + 1] = id
    found[#found + 1] = redis.call('HGET', calls, id)
  end
end
for _ = 1, n.ids do show(take()) end
local fields = {}
for i = 1, n.fields do
  local field = take()
  local value = redis.call('HGET', rows, field)
  fields[i] = value
  if value and string.sub(field, 1, 4) == 'key ' then show(string.sub(value, 17)) end
end
local listed = {}
for i = 1, n.prefixes do
  local prefix = take()
  listed[i] = members(prefix)
  for _, member in ipairs(listed[i]) do show(string.sub(member, 37)) end
end
return {'shown', m[2], head, found, fields, listed}
