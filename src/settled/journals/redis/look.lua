-- Looks only: commands that read, each of so many words, the second of which is the number of the part that it reads.

local seen, id, behind = read('>dBc0', ARGV[1])
local m = call('HMGET', meta, 'id', 'commits', 'sizes')
local wrong = trouble(id, seen, m[1], m[2], m[3])
if wrong then return wrong end

local answers, at, count = {}, 0, 0
while behind <= #ARGV[1] do
  count, behind = read('>I4', ARGV[1], behind)
  local command = {w[at + 1], KEYS[tonumber(w[at + 2])]}
  for j = 3, count do command[j] = w[at + j] end
  at = at + count
  answers[#answers + 1] = call(unpack(command))
end
return {'seen', m[2], answers}
