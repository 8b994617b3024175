-- What stands, in one list, since each list in a list is slow: rows; of each range how many members, and they; the names
-- of calls that are found in these, beside those that were asked for; and all these calls.
local said, n = {'shown', m[2], clock}, 3
local asked, n_asked = {}, n_ids
for i = 1, n_ids do asked[i] = w[i] end
local values = fetch(rows, w, n_ids + 1, n_fields)
for i = 1, n_fields do
  local value = values[i] or ''
  n = n + 1
  said[n] = value
  if value ~= '' and sub(w[n_ids + i], 1, 4) == 'key ' then
    n_asked = n_asked + 1
    asked[n_asked] = sub(value, 17)
  end
end
local known = {}
for i = 1, n_prefixes do
  local listed = members(w[n_ids + n_fields + i])
  n = n + 1
  said[n] = #listed
  for j, member in ipairs(listed) do
    local name = sub(member, 37)
    said[n + j] = member
    if not known[name] then n_asked, asked[n_asked + 1], known[name] = n_asked + 1, name, true end
  end
  n = n + #listed
end
for i = n_ids + 1, n_asked do
  n = n + 1
  said[n] = asked[i]
end
local records = fetch(calls, asked, 1, n_asked)
for i = 1, n_asked do said[n + i] = records[i] or '' end
return said
