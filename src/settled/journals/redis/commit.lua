-- One transaction: if all that was looked at still stands, write; else go on to what stands.

local about, trim, seen_calls, seen_rows, seen_ranges, add, put, drop, set, unset, leave, enter, new, alerts, behind =
  read('>ddI4I4I4I4I4I4I4I4I4I4I4I4', ARGV[1], behind)
local n_rows_ever, n_alerts_ever, done = unpack(m, 8)
if done and tonumber(sub(done, 1, 16)) >= number then return {'done', m[2], clock} end

-- The words: all names, then how the first of each kind must stand, then what is written.
local at = n_ids + n_fields + n_prefixes
local stands = true
local last = {} -- of each call that is looked at: the number of its last row of the log
if about > 0 then -- the client's guess of the time: it may be a little late, and earlier by what the way here took
  local ahead = about - (m[5] + time[1] + time[2] / 1000000 - m[4])
  stands = ahead <= 0.25 and ahead >= -1
end
local found = fetch(calls, w, 1, seen_calls)
for i = 1, seen_calls do
  local value = found[i]
  if (value and sub(value, 1, 16) or '-') ~= w[at + i] then stands = false end
  last[w[i]] = value and sub(value, 37, 52)
end
at = at + seen_calls
found = fetch(rows, w, n_ids + 1, seen_rows)
for i = 1, seen_rows do
  local value = found[i]
  if (value and sub(value, 1, 16) or '-') ~= w[at + i] then stands = false end
end
at = at + seen_rows
for i = 1, seen_ranges do
  if table.concat(members(w[n_ids + n_fields + i]), '\n') ~= w[at + i] then stands = false end
end
at = at + seen_ranges

if stands then
  local function some(command, key, what) -- how many it has added, or taken away
    if #what <= 4000 then return #what > 0 and call(command, key, unpack(what)) or 0 end
    local made = 0
    for i = 1, #what, 4000 do made = made + call(command, key, unpack(what, i, math.min(i + 3999, #what))) end
    return made
  end

  -- A server takes nothing back of a script that is refused in its middle: so each right is asked for before.
  local may = redis.acl_check_cmd or function(...) -- before Redis 7; as they stand below the commands change nothing
    local answer = redis.pcall(...)
    local said = type(answer) == 'table' and answer.err or ''
    return not (string.find(said, 'ACL failure', 1, true) or string.find(said, "can't run this command", 1, true))
  end
  local first = not done -- at a client's first commit: whatever it may ever need
  local missing = not may('HSET', meta, 'a', 'b', 'c') and 'HSET'
    or (first or put > 0) and not may('HSET', calls, 'a', 'b', 'c') and 'HSET'
    or (first or set + drop + alerts > 0) and not may('HSET', rows, 'a', 'b', 'c') and 'HSET'
    or (first or add > 0) and not may('XADD', log, 'NOMKSTREAM', 'no', 'r', 'p') and 'XADD'
    or (first or leave > 0) and not may('ZREM', index, '') and 'ZREM'
    or (first or enter + new + alerts > 0) and not may('ZADD', index, 'no', '') and 'ZADD'
    or (first or drop > 0) and not may('HDEL', calls, '') and 'HDEL'
    or (first or unset > 0) and not may('HDEL', rows, '') and 'HDEL'
    or (first or trim > 0) and not may('XTRIM', log, 'MINID', 'no') and 'XTRIM'
    or first and not may('HGET', rows, '') and 'HGET'
    or first and not may('ZRANGEBYLEX', index, 'no', 'no') and 'ZRANGEBYLEX'
  if missing then return redis.error_reply('NOPERM no permission to run ' .. missing .. ' in a script') end

  local commit = format('%016d', m[2] + 1)
  local changes = {'commits', commit, client, format('%016d ', number) .. time[1]}
  for i = 1, add do
    local name, row = w[at + 1], n_rows_ever + i
    call('XADD', log, format('%d-0', row), 'r', w[at + 2], 'p', last[name] or '')
    last[name] = format('%016d', row)
    at = at + 2
  end
  n_log = n_log + add
  if trim > 0 then n_log = n_log - call('XTRIM', log, 'MINID', format('%d', trim + 1)) end
  if add > 0 then changes[5], changes[6] = 'rows', format('%d', n_rows_ever + add) end
  local places, kept = {}, {}
  for i = 1, put do
    local name, place = w[at + 1], w[at + 2]
    if place == '-' then place = commit .. format('%04d', i) end
    places[name] = place
    kept[2 * i - 1], kept[2 * i] = name, commit .. place .. last[name] .. w[at + 3]
    at = at + 3
  end
  n_calls = n_calls + some('HSET', calls, kept)
  kept = {}
  for i = 1, drop do -- its log stays
    local name = w[at + i]
    n_calls = n_calls - call('HDEL', calls, name)
    kept[#kept + 1], kept[#kept + 2] = 'log ' .. name, commit .. last[name]
  end
  at = at + drop
  for _ = 1, set do
    kept[#kept + 1], kept[#kept + 2] = w[at + 1], commit .. w[at + 2]
    at = at + 2
  end
  for i = 1, unset do n_rows = n_rows - call('HDEL', rows, w[at + i]) end
  at = at + unset
  local left, entered = {}, {}
  for i = 1, leave do left[i] = w[at + i] end
  at = at + leave
  for i = 1, enter do entered[2 * i - 1], entered[2 * i] = 0, w[at + i] end
  at = at + enter
  for i = 1, new do -- members of what this very commit makes: its place is known only here
    local name, all = w[at + 1], w[at + 2]
    local place = places[name] or (commit .. format('%04d', i))
    for j = 1, #all, 16 do
      entered[#entered + 1], entered[#entered + 2] = 0, sub(all, j, j + 15) .. place .. name
    end
    at = at + 2
  end
  for i = 1, alerts do
    local alert = format('%020d', n_alerts_ever + i)
    entered[#entered + 1], entered[#entered + 2] = 0, w[at + 1] .. alert
    kept[#kept + 1], kept[#kept + 2] = 'alert ' .. alert, commit .. w[at + 2]
    changes[#changes + 1], changes[#changes + 2] = 'alerts', format('%d', n_alerts_ever + i)
    at = at + 2
  end
  n_rows = n_rows + some('HSET', rows, kept)
  n_index = n_index - some('ZREM', index, left) + some('ZADD', index, entered)
  if behind <= #ARGV[1] then -- of the clock too, unless somebody else was there first
    local wall, steady, mono, was_wall, was_steady, last_behind = read('>ddddd', ARGV[1], behind)
    if was_wall == tonumber(m[4]) and was_steady == tonumber(m[5]) then
      call('HSET', meta, 'wall', wall, 'steady', steady, 'mono', mono, 'boot', sub(ARGV[1], last_behind))
    end
  end
  call('HSET', meta, 'sizes', format('%d %d %d %d', n_calls, n_rows, n_index, n_log), unpack(changes))
  return {'written', commit, clock}
end
