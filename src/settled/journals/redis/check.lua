-- Is it still the whole journal that its clients have seen? Stands before each of the other scripts.
-- KEYS are always the same, in this order. ARGV[1] holds, packed, names, numbers and counts, and the
-- lengths of the words that stand, so counted, one behind the other in ARGV[2].
local meta, calls, rows, index, log = unpack(KEYS)
local p, lengths = unpack(cmsgpack.unpack(ARGV[1]))
local words, nth, read = ARGV[2], 0, 0

local function take()
  nth = nth + 1
  local from = read + 1
  read = read + lengths[nth]
  return string.sub(words, from, read)
end

local function go_to(n) -- so that the next to be taken comes behind so many
  nth, read = n, 0
  for i = 1, n do read = read + lengths[i] end
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
