-- Requests for wrk: the bodies of a file, one a line, one after another; answers are compared with those of another file.
-- Arguments: path, file of bodies, file of answers ("-": not compared). Tells a line of JSON at the end.

local threads = {}

function setup(thread) table.insert(threads, thread) end

function init(args)
  path, bodies, answers, at, wrong = args[1], {}, {}, 0, 0
  for line in io.lines(args[2]) do bodies[#bodies + 1] = line end
  if args[3] ~= "-" then
    for line in io.lines(args[3]) do answers[#answers + 1] = line end
  else
    response = nil -- wrk then reads no heads for us
  end
end

function request()
  at = (at + 7919) % #bodies
  local head = {["Content-Type"] = "application/json", ["X-Request-Id"] = tostring(at + 1)}
  return wrk.format("POST", path, head, bodies[at + 1])
end

function response(status, headers, body)
  local number = tonumber(headers["x-request-id"])
  if status ~= 200 or body ~= answers[number] then wrong = wrong + 1 end
end

function done(summary, latency)
  local mistakes = 0
  for _, thread in ipairs(threads) do mistakes = mistakes + (thread:get("wrong") or 0) end
  local errors = summary.errors
  io.stderr:write(string.format(
    '{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "wrong": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, mistakes,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
