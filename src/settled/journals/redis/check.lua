-- Is it still the whole journal that its clients have seen? Stands before each of the other scripts.
-- KEYS are always the same, in this order. ARGV[1] holds, packed, how long each word is, then names, numbers and counts;
-- ARGV[2] the words, one behind the other: many arguments cost both sides more.
local meta, calls, rows, index, log = unpack(KEYS)
local call, sub, concat, format = redis.call, string.sub, table.concat, string.format
local p = cmsgpack.unpack(ARGV[1])
local w, sizes_of, words, from = {}, p[1], ARGV[2], 1
for i = 1, #sizes_of do
  local behind = from + sizes_of[i]
  w[i] = sub(words, from, behind - 1)
  from = behind
end

-- How much each part holds. A part that was evicted, deleted or overwritten is noticed by it.
local n_calls, n_rows, n_index, n_log = call('HLEN', calls), call('HLEN', rows), call('ZCARD', index), call('XLEN', log)
local sizes = n_calls .. ' ' .. n_rows .. ' ' .. n_index .. ' ' .. n_log

local function trouble(id, seen, found, commits, held)
  if not found then return 'gone' end
  if found ~= id then return 'other\n' .. found end
  if tonumber(commits) < seen then return 'behind\n' .. commits end
  if sizes ~= held then return 'damaged\n' .. held .. '\n' .. sizes end
end
