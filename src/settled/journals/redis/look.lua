-- Looks only: a list of commands that read, each with the number of the part that it reads.

local id, seen, asked = unpack(p)
local m = redis.call('HMGET', meta, 'id', 'commits', 'sizes')
local wrong = trouble(id, seen, m[1], m[2], m[3])
if wrong then return wrong end

local answers = {}
for i, count in ipairs(asked) do
  local command = {take(), KEYS[tonumber(take())]}
  for j = 3, count do command[j] = take() end
  answers[i] = redis.call(unpack(command))
end
return {'seen', m[2], answers}
