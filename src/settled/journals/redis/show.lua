-- One string, quicker to read than a list: how long each piece is, as Python's `struct` has it, then the pieces. A piece
-- without length stands for what is not there.
local said, form, shown = {}, {}, {}
asked = {}
local function say(piece)
  said[#said + 1] = piece or ''
  form[#form + 1] = #said[#said]
end
local function show(name)
  if not shown[name] then
    shown[name] = true
    asked[#asked + 1] = name
  end
end
say(head)
for i = 1, n_ids do show(w[i]) end
local values = fetch(rows, w, n_ids + 1, n_fields)
for i = 1, n_fields do
  local value = values[i]
  say(value)
  if value and sub(w[n_ids + i], 1, 4) == 'key ' then show(sub(value, 17)) end
end
for i = 1, n_prefixes do
  local listed = members(w[n_ids + n_fields + i])
  say(tostring(#listed))
  for _, member in ipairs(listed) do
    say(member)
    show(sub(member, 37))
  end
end
local records = fetch(calls, asked, 1, #asked)
for i, name in ipairs(asked) do
  say(name)
  say(records[i])
end
return 'shown\n' .. m[2] .. '\n' .. concat(form, 's') .. 's\n' .. concat(said)
