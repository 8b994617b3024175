-- Looks only: a list of commands that read, each with the number of the part that it reads.

local id, seen, asked = unpack(p)
local m = redis.call('HMGET', meta, 'id', 'commits', 'sizes')
local wrong = trouble(id, seen, m[1], m[2], m[3])
if wrong then return wrong end

local answers, at = {}, 0
for i, count in ipairs(asked) do
  local words = {word(at + 1), KEYS[tonumber(word(at + 2))]}
  for j = 3, count do words[j] = word(at + j) end
  at = at + count
  answers[i] = redis.call(unpack(words))
end
return {'seen', m[2], answers}
