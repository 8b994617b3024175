-- Is it still the whole journal that its clients have seen? Stands before each of the other scripts.
-- KEYS are always the same, in this order; ARGV[1] holds names, numbers and counts, packed; then come bytes, so counted.
local meta, calls, rows, index, logs, log, seals, outbox, clients = unpack(KEYS)
local p = cmsgpack.unpack(ARGV[1])

-- How much each part holds. A part that was evicted, deleted or overwritten is noticed by it.
local function sizes()
  return table.concat({
    redis.call('HLEN', calls), redis.call('HLEN', rows), redis.call('ZCARD', index), redis.call('HLEN', logs),
    redis.call('XLEN', log), redis.call('LLEN', seals), redis.call('HLEN', outbox),
  }, ' ')
end

local function trouble(m)
  if not m[1] then return {'gone'} end
  if m[1] ~= p.id then return {'other', m[1]} end
  if tonumber(m[2]) < p.seen then return {'behind', m[2]} end
  local now = sizes()
  if now ~= m[3] then return {'damaged', m[3], now} end
end
