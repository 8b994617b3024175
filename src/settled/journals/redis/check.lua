-- Is it still the whole journal that its clients have seen? Stands before each of the other scripts.
-- KEYS are always the same, in this order. ARGV[1] holds numbers; then come a form and the words that it cuts (see
-- `struct`), again and again if there are very many: many arguments cost both sides more.
local meta, calls, rows, index, log = unpack(KEYS)
local call, sub, format, read = redis.call, string.sub, string.format, struct.unpack
local w = {read(ARGV[2], ARGV[3])}
for i = 4, #ARGV, 2 do
  local more, n = {read(ARGV[i], ARGV[i + 1])}, #w - 1 -- behind the words stands where the next one would begin
  for j = 1, #more do w[n + j] = more[j] end
end

-- How much each part holds. A part that was evicted, deleted or overwritten is noticed by it.
local n_calls, n_rows, n_index, n_log = call('HLEN', calls), call('HLEN', rows), call('ZCARD', index), call('XLEN', log)
local sizes = format('%d %d %d %d', n_calls, n_rows, n_index, n_log)

local function trouble(id, seen, found, commits, held)
  if not found then return {'gone'} end
  if found ~= id then return {'other', found} end
  if tonumber(commits) < seen then return {'behind', commits} end
  if sizes ~= held then return {'damaged', held, sizes} end
end
