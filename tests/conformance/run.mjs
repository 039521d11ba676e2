// Runs the public suite http-cache-tests against a cache: this process is both the suite's origin and its client.
//
// It prints `origin PORT`, waits for a line `base URL` on its standard input (the cache in front of that origin), runs
// the tests and prints a line a test: id, kind, outcome and detail, tab-separated. Arguments are test ids; none means all.
// The suite's own server listens on every address and its command line runs tests 100 at a time: hence this file.

import http from 'http'
import readline from 'readline'
import fetch from 'node-fetch'
import handleConfig from 'http-cache-tests/server/handle-config.mjs'
import handleState from 'http-cache-tests/server/handle-state.mjs'
import handleTest from 'http-cache-tests/server/handle-test.mjs'
import { runTests, getResults } from 'http-cache-tests/client/runner.mjs'
import suites from 'http-cache-tests/tests/index.mjs'
import surrogate from 'http-cache-tests/tests/surrogate-control.mjs'

const AT_A_TIME = 150
const all = [...suites, surrogate]
const wanted = new Set(process.argv.slice(2))
const byId = new Map(all.flatMap(suite => suite.tests).map(test => [test.id, test]))

// The suite logs on standard output, which belongs to the result.
console.log = (...words) => process.stderr.write(words.join(' ') + '\n')

function serve (request, response) {
  const [, kind, ...rest] = new URL(request.url, 'http://origin').pathname.split('/')
  const handlers = { config: handleConfig, test: handleTest, state: handleState }
  if (handlers[kind]) return handlers[kind](rest, request, response)
  response.writeHead(404).end()
}

// Tests whose last request the origin leaves without an answer, and which nothing stored may answer. The
// suite takes whatever does not bear its origin's fields for a stored response, so that no cache can pass
// them: in its own results those that serve stale elsewhere (Apache, Squid) fail all of them. What they ask
// is judged here: the answer must be the cache's own error.
const own = new Map()
const isForbidden = request => request.disconnect && request.expected_type === 'not_cached'
const mustFail = test => test.requests.some(isForbidden)

async function fetchAndNote (url, init) {
  const response = await fetch(url, init)
  const headers = new Map(init?.headers)
  const [id, number] = [headers.get('Test-ID'), headers.get('Req-Num')]
  if (byId.get(id)?.requests[number - 1]?.disconnect) {
    own.set(id, [502, 504].includes(response.status) && !response.headers.has('Server-Request-Count'))
  }
  return response
}

function outcome (id, results) {
  const test = byId.get(id)
  const result = results[id]
  const unmet = (test.depends_on || []).filter(other => other in results && outcome(other, results) !== 'pass')
  // A `check` asks how a cache behaves: after the other answer, what builds on it means nothing.
  if (unmet.length > 0) return unmet.every(other => byId.get(other).kind === 'check') ? 'moot' : 'dependency'
  if (mustFail(test) && own.has(id)) return own.get(id) ? 'pass' : 'fail'
  if (result === true) return 'pass'
  return result[0] === 'Setup' ? 'setup' : 'fail'
}

async function judge (base) {
  const chosen = all.map(suite => ({
    ...suite,
    tests: suite.tests.filter(test => wanted.size === 0 || wanted.has(test.id))
  }))
  await runTests(chosen, fetchAndNote, false, base, AT_A_TIME)
  const results = getResults()
  const lines = Object.keys(results).map(id => {
    const detail = results[id] === true ? '' : String(results[id][1]).replace(/\s+/g, ' ')
    return [id, byId.get(id).kind || 'required', outcome(id, results), detail].join('\t') + '\n'
  })
  process.stdout.write(lines.join(''), () => process.exit(0))
}

const server = http.createServer(serve)
server.listen(0, '127.0.0.1', () => process.stdout.write(`origin ${server.address().port}\n`))
readline.createInterface({ input: process.stdin }).on('line', line => judge(line.replace(/^base /, '').replace(/\/$/, '')))
