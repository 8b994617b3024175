-- What is shown and what is written begin so: is it the journal, how far has it come, and what is the time?
-- A call is kept as: version (number of the commit, 16), place (20), number of its last row of the log (16), record.
-- A row is kept as: version (16), value. A member of the index is made of: prefix (16), place (20), name.

local seen, number, n_ids, n_fields, n_prefixes, id, client, behind = read('>ddI4I4I4Bc0Bc0', ARGV[1])
local m
if number == 0 then -- looks only
  m = call('HMGET', meta, 'id', 'commits', 'sizes', 'wall', 'steady', 'boot', 'mono')
else
  m = call('HMGET', meta, 'id', 'commits', 'sizes', 'wall', 'steady', 'boot', 'mono', 'rows', 'alerts', client)
end
local wrong = trouble(id, seen, m[1], m[2], m[3])
if wrong then return wrong end
local time = call('TIME')
local clock = table.concat({time[1], time[2], m[4], m[5], m[7], m[6]}, '\n')

local function fetch(key, names, first, n) -- what lies in a hash under some of these names
  if n <= 4000 then return n > 0 and call('HMGET', key, unpack(names, first, first + n - 1)) or {} end
  local found = {}
  for i = 0, n - 1, 4000 do
    for j, value in ipairs(call('HMGET', key, unpack(names, first + i, first + math.min(i + 3999, n - 1)))) do
      found[i + j] = value
    end
  end
  return found
end

local function members(prefix)
  return call('ZRANGEBYLEX', index, '[' .. prefix, '(' .. prefix .. '\255')
end
