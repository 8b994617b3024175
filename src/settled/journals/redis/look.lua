-- Looks only: a list of commands that read, each with the number of the part that it reads.

local _, id, seen, asked = unpack(p)
local m = call('HMGET', meta, 'id', 'commits', 'sizes')
local wrong = trouble(id, seen, m[1], m[2], m[3])
if wrong then return wrong end

local answers, at = {}, 0
for i, count in ipairs(asked) do
  local command = {w[at + 1], KEYS[tonumber(w[at + 2])]}
  for j = 3, count do command[j] = w[at + j] end
  at = at + count
  answers[i] = call(unpack(command))
end
return {'seen', m[2], answers}
