const $ = id => document.getElementById('site-' + id)

// Theme.
$('theme').addEventListener('click', () => {
  const root = document.documentElement
  const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = isDark ? 'light' : 'dark'
  try { localStorage.setItem('theme', root.dataset.theme) } catch {}
})

// The list of pages on narrow screens.
$('menu').addEventListener('click', () => {
  const isOpen = document.body.classList.toggle('menu-open')
  $('menu').setAttribute('aria-expanded', isOpen)
})
const current = document.querySelector('nav [aria-current]')
if (current) $('pages').scrollTop = current.offsetTop - $('pages').clientHeight / 2

function load(url) {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.onload = resolve
    script.onerror = reject
    script.src = url
    document.head.append(script)
  })
}

// Versions: each is a directory beside this one, and versions.js above them lists all. The page of the other version
// may not exist there.
const home = new URL('.', $('home').href)
load(new URL('../versions.js', home)).then(() => {
  const select = $('version')
  const own = select.value
  select.replaceChildren(...siteVersions.map(name => new Option(name, name, name === own, name === own)))
  select.addEventListener('change', async () => {
    const other = new URL(`../${select.value}/`, home)
    const page = new URL(location.pathname.slice(home.pathname.length), other)
    const found = await fetch(page, {method: 'HEAD'}).then(r => r.ok, () => false)
    location.href = found ? page : new URL('index.html', other)
  })
}, () => {})

// Search: every word must occur in the section or its headings. Headings count more than text.
let index
const openIndex = () => index ??= load($('index').href).then(() => searchIndex.map(([path, title, heading, anchor, text]) =>
  ({path, title, heading, anchor, text, head: (title + ' ' + heading).toLowerCase(), body: text.toLowerCase()})))
$('query').addEventListener('focus', () => openIndex().catch(() => {}))

function score(section, words) {
  let sum = 0
  for (const word of words) {
    const inHead = section.head.includes(word)
    if (!inHead && !section.body.includes(word)) return 0
    sum += inHead ? 10 : 1
    if (section.title.toLowerCase().includes(word)) sum += 5
    if (section.head.split(/\W+/).includes(word)) sum += 5
  }
  if (!section.anchor) sum += 2
  return sum
}

function excerpt(section, words) {
  const at = words.map(w => section.body.indexOf(w)).filter(n => n >= 0)
  const from = Math.max(0, (at.length ? Math.min(...at) : 0) - 40)
  return (from ? '… ' : '') + section.text.slice(from, from + 140)
}

// marked returns an element with the words marked; it never parses the text as HTML.
function marked(tag, text, words) {
  const element = document.createElement(tag)
  const pattern = new RegExp('(' + words.map(w => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|') + ')', 'ig')
  text.split(pattern).forEach((part, n) => {
    if (n % 2) element.append(Object.assign(document.createElement('mark'), {textContent: part}))
    else element.append(part)
  })
  return element
}

function show(hits, words) {
  const items = hits.map(section => {
    const item = document.createElement('a')
    item.href = new URL(section.path, home) + (section.anchor ? '#' + section.anchor : '')
    item.role = 'option'
    item.append(marked('b', section.heading ? `${section.title} › ${section.heading}` : section.title, words),
      marked('span', excerpt(section, words), words))
    return item
  })
  if (!items.length) items.push(Object.assign(document.createElement('p'), {textContent: 'No page has all these words.'}))
  $('results').replaceChildren(...items)
  toggleResults(true)
}

function toggleResults(isOpen) {
  $('results').hidden = !isOpen
  $('query').setAttribute('aria-expanded', isOpen)
}

$('query').addEventListener('input', async () => {
  const typed = $('query').value
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8)
  if (!words.length) return toggleResults(false)
  const sections = await openIndex()
  if ($('query').value !== typed) return // a later input shows its own results
  const ofPage = {}
  show(sections.map(section => ({section, points: score(section, words)})).filter(hit => hit.points)
    .sort((a, b) => b.points - a.points).map(hit => hit.section)
    .filter(({path}) => (ofPage[path] = (ofPage[path] ?? 0) + 1) <= 3).slice(0, 12), words)
})

document.addEventListener('keydown', event => {
  const box = document.querySelector('.search')
  if (event.key === '/' && !event.target.closest('input, select, textarea')) {
    event.preventDefault()
    $('query').focus()
  } else if (event.key === 'Escape') {
    toggleResults(false)
  } else if (box.contains(event.target) && ['ArrowDown', 'ArrowUp', 'Enter'].includes(event.key)) {
    const stops = [$('query'), ...$('results').querySelectorAll('a')]
    const at = stops.indexOf(event.target)
    if (event.key !== 'Enter') {
      event.preventDefault()
      stops.at((at + (event.key === 'ArrowDown' ? 1 : -1)) % stops.length).focus()
    } else if (at === 0 && stops[1]) {
      stops[1].click()
    }
  }
})
document.addEventListener('click', event => {
  if (!event.target.closest('.search')) toggleResults(false)
})

// Copy buttons.
if (navigator.clipboard) {
  for (const block of document.querySelectorAll('main pre')) {
    const button = Object.assign(document.createElement('button'), {className: 'copy', textContent: 'Copy'})
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(block.querySelector('code').innerText)
      button.textContent = 'Copied'
      setTimeout(() => { button.textContent = 'Copy' }, 1500)
    })
    const frame = Object.assign(document.createElement('div'), {className: 'block'})
    block.replaceWith(frame)
    frame.append(block, button)
  }
}
