-- One transaction: if all that was looked at still stands, write; else, or if only asked to look, show what stands.
-- A call is kept as: version (number of the commit, 16), place (20), number of its last row of the log (16), record.
-- A row is kept as: version (16), value. A member of the index is made of: prefix (16), place (20), name.

local id, seen, ids, fields, prefixes, number, client, about, clock, trim, n = unpack(p)
client = client and 'client ' .. client or 'no client'
local m = redis.call('HMGET', meta, 'id', 'commits', 'sizes', 'rows', 'alerts', 'wall', 'steady', 'boot', 'mono', client)
local wrong = trouble(id, seen, m[1], m[2], m[3])
if wrong then return wrong end

local time = redis.call('TIME')
local head = table.concat({time[1], time[2], m[6], m[7], m[8], m[9]}, '\n')

local at = 0
local function take()
  at = at + 1
  return word(at)
end

local function fetch(key, names)
  local found = {}
  for from = 1, #names, 4000 do
    local more = redis.call('HMGET', key, unpack(names, from, math.min(from + 3999, #names)))
    for i = 1, #more do found[from + i - 1] = more[i] end
  end
  return found
end

local function members(prefix)
  return redis.call('ZRANGEBYLEX', index, '[' .. prefix, '(' .. prefix .. '\255')
end

local last = {} -- of each call that is looked at: the number of its last row of the log

local function stands(n_calls, n_rows, n_ranges)
  if about then -- the client's guess of the time: it may be a little late, and earlier by what the way here took
    local claimed = tonumber(m[7]) + tonumber(time[1]) + tonumber(time[2]) / 1000000 - tonumber(m[6])
    if about - claimed > 0.25 or claimed - about > 1 then return false end
  end
  at = ids + fields + prefixes
  for _ = 1, n_calls do
    local name = take()
    local value = redis.call('HGET', calls, name)
    if (value and string.sub(value, 1, 16) or '') ~= take() then return false end
    last[name] = value and string.sub(value, 37, 52)
  end
  for _ = 1, n_rows do
    local value = redis.call('HGET', rows, take())
    if (value and string.sub(value, 1, 16) or '') ~= take() then return false end
  end
  for _ = 1, n_ranges do
    local prefix = take()
    if table.concat(members(prefix), '\n') ~= take() then return false end
  end
  return true
end

local function some(command, key, what) -- how many it has added, or taken away
  local n = 0
  for from = 1, #what, 4000 do n = n + redis.call(command, key, unpack(what, from, math.min(from + 3999, #what))) end
  return n
end

local function write(n_log, n_put, n_drop, n_set, n_unset, n_leave, n_enter, n_new, n_alerts)
  local commit = string.format('%016.0f', m[2] + 1)
  local n_calls, n_rows, n_index, n_rows_of_log = string.match(m[3], '^(%d+) (%d+) (%d+) (%d+)$')
  local changes = {'commits', commit, client, string.format('%.0f ', number) .. time[1]}
  for i = 1, n_log do
    local name, row = take(), string.format('%016.0f', m[4] + i)
    redis.call('XADD', log, string.format('%.0f-0', m[4] + i), 'r', take(), 'p', last[name] or '')
    last[name] = row
  end
  n_rows_of_log = n_rows_of_log + n_log
  if trim then n_rows_of_log = n_rows_of_log - redis.call('XTRIM', log, 'MINID', string.format('%.0f', trim + 1)) end
  if n_log > 0 then changes[5], changes[6] = 'rows', string.format('%.0f', m[4] + n_log) end
  local places, kept = {}, {}
  for i = 1, n_put do
    local name, place, record = take(), take(), take()
    if place == '' then place = commit .. string.format('%04d', i) end
    places[name] = place
    kept[2 * i - 1], kept[2 * i] = name, commit .. place .. last[name] .. record
  end
  n_calls = n_calls + some('HSET', calls, kept)
  kept = {}
  for _ = 1, n_drop do -- its log stays
    local name = take()
    n_calls = n_calls - redis.call('HDEL', calls, name)
    kept[#kept + 1], kept[#kept + 2] = 'log ' .. name, commit .. last[name]
  end
  for _ = 1, n_set do kept[#kept + 1], kept[#kept + 2] = take(), commit .. take() end
  for _ = 1, n_unset do n_rows = n_rows - redis.call('HDEL', rows, take()) end
  local left, entered = {}, {}
  for i = 1, n_leave do left[i] = take() end
  for i = 1, n_enter do entered[2 * i - 1], entered[2 * i] = 0, take() end
  for i = 1, n_new do -- members of what this very commit makes: its place is known only here
    local name, all = take(), take()
    local place = places[name] or (commit .. string.format('%04d', i))
    for from = 1, #all, 16 do
      entered[#entered + 1], entered[#entered + 2] = 0, string.sub(all, from, from + 15) .. place .. name
    end
  end
  for i = 1, n_alerts do
    local alert = string.format('%020.0f', m[5] + i)
    entered[#entered + 1], entered[#entered + 2] = 0, take() .. alert
    kept[#kept + 1], kept[#kept + 2] = 'alert ' .. alert, commit .. take()
    changes[#changes + 1], changes[#changes + 2] = 'alerts', string.format('%.0f', m[5] + i)
  end
  n_rows = n_rows + some('HSET', rows, kept)
  n_index = n_index - some('ZREM', index, left) + some('ZADD', index, entered)
  if clock and clock[5] == tonumber(m[6]) and clock[6] == tonumber(m[7]) then
    redis.call('HSET', meta, 'wall', clock[1], 'steady', clock[2], 'boot', clock[3], 'mono', clock[4])
  end
  local held = string.format('%.0f %.0f %.0f %.0f', n_calls, n_rows, n_index, n_rows_of_log)
  redis.call('HSET', meta, 'sizes', held, unpack(changes))
  return commit
end

local function denied() -- the first command that this user may not use; as they stand here they change nothing
  for _, words in ipairs({
    {'HGET', rows, ''}, {'ZRANGEBYLEX', index, 'no', 'no'}, {'XADD', log, 'NOMKSTREAM', 'no', 'r', 'p'},
    {'XTRIM', log, 'MINID', 'no'}, {'HSET', rows, 'a', 'b', 'c'}, {'HDEL', rows, ''}, {'ZREM', index, ''},
    {'ZADD', index, 'no', ''}
  }) do
    local answer = redis.pcall(unpack(words))
    local said = type(answer) == 'table' and answer.err or ''
    if string.find(said, 'ACL failure', 1, true) or string.find(said, "can't run this command", 1, true) then
      return words[1]
    end
  end
end

if number then
  local done = m[10]
  if done and tonumber(string.match(done, '^%d+')) >= number then return 'done\n' .. m[2] .. '\n' .. head end
  local missing = not done and denied() -- at this client's first commit: nothing of a script is rolled back
  if missing then return redis.error_reply('NOPERM no permission to run ' .. missing .. ' in a script') end
  if stands(unpack(n, 1, 3)) then return 'written\n' .. write(unpack(n, 4)) .. '\n' .. head end
end

-- One string, quicker to read than a list of lists: how long each piece is, then the pieces; '-' is what is not there.
local said, sizes_said, n_said = {}, {}, 0
local function say(piece)
  n_said = n_said + 1
  said[n_said], sizes_said[n_said] = piece or '', piece and #piece or '-'
end
local shown, asked = {}, {}
local function show(name)
  if not shown[name] then
    shown[name] = true
    asked[#asked + 1] = name
  end
end
at = 0
for _ = 1, ids do show(take()) end
local named = {}
for i = 1, fields do named[i] = take() end
local values = fetch(rows, named)
for i = 1, fields do
  if values[i] and string.sub(named[i], 1, 4) == 'key ' then show(string.sub(values[i], 17)) end
end
local listed = {}
for i = 1, prefixes do
  listed[i] = members(take())
  for _, member in ipairs(listed[i]) do show(string.sub(member, 37)) end
end
say(m[2])
say(head)
for i = 1, fields do say(values[i]) end
for i = 1, prefixes do
  say(tostring(#listed[i]))
  for _, member in ipairs(listed[i]) do say(member) end
end
local records = fetch(calls, asked)
for i, name in ipairs(asked) do
  say(name)
  say(records[i])
end
return 'shown ' .. table.concat(sizes_said, ' ') .. '\n' .. table.concat(said)
