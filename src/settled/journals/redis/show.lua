-- One string, quicker to read than a list: how long each piece is, as Python's `struct` has it, then the pieces. A piece
-- without length stands for what is not there.
local said, form, n_said = {head}, {#head}, 1
local asked, shown = {}, {}
for i = 1, n_ids do asked[i], shown[w[i]] = w[i], true end
local function show(name)
  if not shown[name] then asked[#asked + 1], shown[name] = name, true end
end
local values = fetch(rows, w, n_ids + 1, n_fields)
for i = 1, n_fields do
  local value = values[i] or ''
  said[i + 1], form[i + 1] = value, #value
  if value ~= '' and sub(w[n_ids + i], 1, 4) == 'key ' then show(sub(value, 17)) end
end
n_said = n_fields + 1
for i = 1, n_prefixes do
  local listed = members(w[n_ids + n_fields + i])
  local number = tostring(#listed)
  n_said = n_said + 1
  said[n_said], form[n_said] = number, #number
  for _, member in ipairs(listed) do
    n_said = n_said + 1
    said[n_said], form[n_said] = member, #member
    show(sub(member, 37))
  end
end
local records = fetch(calls, asked, 1, #asked)
for i, name in ipairs(asked) do
  local record = records[i] or ''
  said[n_said + 1], form[n_said + 1] = name, #name
  said[n_said + 2], form[n_said + 2] = record, #record
  n_said = n_said + 2
end
return 'shown\n' .. m[2] .. '\n' .. concat(form, 's') .. 's\n' .. concat(said)
