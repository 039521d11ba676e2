// Loads a page with its pictures and opens a WebSocket through Weir in a headless Chromium, over TLS.
//
// Argument: the browser. It is the origin as well: it prints `origin PORT`, reads `base URL` from its input, and then prints
// a line for each thing that was loaded, with the protocol that the browser says, the WebSocket's with what the origin has
// seen of it, and `done` last; what goes wrong is a line that begins with `error`.

import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

const PICTURES = 20
const STEP_MS_MAX = 30000
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64')

const pictures = Array.from({ length: PICTURES }, (_, number) => `<img src="/picture/${number}.gif">`).join('')
const origin = createServer((request, response) => {
  const isPicture = request.url.startsWith('/picture/')
  response.setHeader('Cache-Control', 'max-age=600')
  response.setHeader('Content-Type', isPicture ? 'image/gif' : 'text/html')
  response.end(isPicture ? PIXEL : `<!doctype html><title>page</title>${pictures}`)
})

// RFC 6455: says what it has seen, then sends each short text back.
origin.on('upgrade', (request, socket) => {
  const key = request.headers['sec-websocket-key'] ?? ''
  const accept = createHash('sha1').update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
  const send = (text) => socket.write(Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]))
  send(`via ${request.headers.via}`)
  socket.on('error', () => {})
  socket.on('data', (frame) => {
    if ((frame[0] & 15) !== 1) return socket.end()
    const [length, mask] = [frame[1] & 127, frame.subarray(2, 6)]
    send(Buffer.from(frame.subarray(6, 6 + length)).map((byte, at) => byte ^ mask[at % 4]).toString())
  })
})

await new Promise((resolve) => origin.listen(0, '127.0.0.1', resolve))
console.log(`origin ${origin.address().port}`)
const [line] = await new Promise((resolve) => createInterface({ input: process.stdin }).once('line', (line) => resolve([line])))
const base = line.slice('base '.length)
const browser = await chromium.launch({
  executablePath: process.argv[2],
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--ignore-certificate-errors']
})

// In the page: the answers of a WebSocket.
async function talk () {
  const socket = new WebSocket(`wss://${location.host}/socket`)
  const heard = []
  return await new Promise((resolve, reject) => {
    socket.onerror = () => reject(new Error('the WebSocket failed'))
    socket.onmessage = ({ data }) => {
      heard.push(data)
      if (heard.length === 1) socket.send('hello')
      if (heard.length === 2) resolve(heard)
    }
  })
}

try {
  const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
  page.setDefaultTimeout(STEP_MS_MAX)
  await page.goto(`${base}/`, { waitUntil: 'load' })
  const said = await page.evaluate(() => {
    const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    const broken = [...document.images].filter((image) => image.naturalWidth !== 1).length
    return [...entries.map((entry) => `${new URL(entry.name).pathname} ${entry.nextHopProtocol}`), `broken ${broken}`]
  })
  said.forEach((line) => console.log(line))
  const late = new Promise((resolve, reject) => setTimeout(() => reject(new Error('the WebSocket took too long')), STEP_MS_MAX).unref())
  const heard = await Promise.race([page.evaluate(talk), late])
  heard.forEach((text) => console.log(`socket ${text}`))
  console.log('done')
} catch (error) {
  console.log('error', error.message.split('\n')[0])
} finally {
  await browser.close()
  process.exit(0)
}
