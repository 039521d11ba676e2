// Plays a page's media through Weir in a headless Chromium: forward, to the end, back, and on.
//
// Arguments: the browser, the page's URL. It prints a line for each step, `STEP time-of-the-media`, and `done` last; what
// goes wrong is a line that begins with `error`. It downloads nothing: the browser is the one that the machine has.

import { chromium } from 'playwright-core'

const STEP_MS_MAX = 30000
const [executablePath, url] = process.argv.slice(2)

const browser = await chromium.launch({
  executablePath,
  headless: true,
  args: ['--no-sandbox', '--autoplay-policy=no-user-gesture-required', '--mute-audio', '--disable-gpu', '--disable-dev-shm-usage']
})

// In the page: plays on from a place until the media has moved on by so many seconds, or has ended.
async function playFrom (place, seconds) {
  const media = document.querySelector('audio, video')
  const heard = (name) => new Promise((resolve, reject) => {
    media.addEventListener(name, resolve, { once: true })
    media.addEventListener('error', () => reject(new Error(media.error.message)), { once: true })
  })
  if (media.readyState === 0) await heard('loadedmetadata')
  if (place !== null) {
    const sought = heard('seeked')
    media.currentTime = place < 0 ? media.duration + place : place
    await sought
  }
  const from = media.currentTime
  await media.play()
  while (!media.ended && media.currentTime < from + seconds) await new Promise(resolve => setTimeout(resolve, 20))
  media.pause()
  return `${media.currentTime.toFixed(2)} of ${media.duration.toFixed(2)}`
}

try {
  const page = await browser.newPage()
  page.setDefaultTimeout(STEP_MS_MAX)
  await page.goto(url)
  const steps = [['start', null, 1], ['end', -1.5, 2], ['back', 20, 1], ['middle', 80, 1], ['again', 0.5, 1]]
  for (const [name, place, seconds] of steps) {
    const run = page.evaluate(`(${playFrom})(${place}, ${seconds})`)
    const late = new Promise((resolve, reject) => setTimeout(() => reject(new Error(`${name} took too long`)), STEP_MS_MAX).unref())
    console.log(name, await Promise.race([run, late]))
  }
  console.log('done')
} catch (error) {
  console.log('error', error.message.split('\n')[0])
} finally {
  await browser.close()
}
