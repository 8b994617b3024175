-- Is it still the whole journal that its clients have seen? Stands before each of the other scripts.
-- KEYS are always the same, in this order. ARGV[1] holds names, numbers and counts, packed; ARGV[3] the words that are
-- so counted, one behind the other, and ARGV[2] where each of them ends: many arguments cost both sides more.
local meta, calls, rows, index, log = unpack(KEYS)
local p, ends = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])

local function word(i)
  return string.sub(ARGV[3], (ends[i - 1] or 0) + 1, ends[i])
end

-- How much each part holds. A part that was evicted, deleted or overwritten is noticed by it.
local function sizes()
  return redis.call('HLEN', calls) .. ' ' .. redis.call('HLEN', rows) .. ' ' .. redis.call('ZCARD', index) .. ' '
    .. redis.call('XLEN', log)
end

local function trouble(id, seen, found, commits, held)
  if not found then return {'gone'} end
  if found ~= id then return {'other', found} end
  if tonumber(commits) < seen then return {'behind', commits} end
  local now = sizes()
  if now ~= held then return {'damaged', held, now} end
end
