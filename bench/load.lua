-- Requests for wrk: one plant a request, each with a new id.
--
-- Arguments: path, name of the body's id member, token, stream, seed.
--
-- Every id has 16 digits and is below 2^53, so every request has the same length and init builds its head once. An id is a
-- 32-bit random number x times 2^20, from a generator of full period
-- (https://en.wikipedia.org/wiki/Linear_congruential_generator). Its low 20 bits have the numbers of stream and thread, so
-- two streams have no common id.

local first = 1000000000000000
local tail = ',"name":"Made for measuring","tag":"made"}'
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  local path, member, token = args[1], args[2], args[3]
  local stream, seed = tonumber(args[4]), tonumber(args[5])
  local body = '{"' .. member .. '":'
  local head = 'POST ' .. path .. ' HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port ..
    '\r\nAuthorization: Bearer ' .. token ..
    '\r\nContent-Type: application/json\r\nContent-Length: ' .. (#body + 16 + #tail) .. '\r\n\r\n' .. body
  local format = string.format

  local x = (seed * 2654435761 + number * 40503) % 4294967296
  local base = first + stream * 256 + number
  function request()
    x = (x * 1664525 + 1013904223) % 4294967296
    return head .. format("%016.0f", base + x * 1048576) .. tail
  end
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"p999":%d,"max":%d,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max,
    e.status, e.connect, e.read, e.write, e.timeout))
end
